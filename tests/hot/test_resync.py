"""A batch at the end of a record's value, when the headers before it are gone."""

from tests.hot.support import batch
from tierlog.hot.resync import resync
from tierlog.records.batch import patch_offset
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset, Position


def placed(base: int, value: bytes) -> bytes:
    data = batch(value)
    patch_offset(data, Offset(base), LeaderEpoch(1))
    return bytes(data)


def test_a_batch_that_ends_a_value_at_the_end_of_the_file_is_not_the_logs_own() -> None:
    """Behind it comes the record's count of headers, a zero, and nothing more."""
    outer = placed(3, b"x" * 600 + placed(4, b"inside"))
    data = bytes(512) + outer[512:]  # A power cut lost the first sector.
    file = SimDisk().open("/f", create=True)
    file.pwrite(data, 0)
    found = resync(
        file, start=Position(0), end=Position(len(data)), floor=Offset(3), ceiling=Offset(100)
    )
    assert found is None
