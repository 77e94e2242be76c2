"""The two indexes of a segment: filled, written, loaded, cut, built anew."""

import pytest

from tests.hot.support import batch
from tierlog.hot.indexes import SegmentIndexes, build_indexes, load_indexes, write_indexes
from tierlog.records.batch import iter_batches, patch_offset
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset, Position, TimestampMs

BASE = Offset(100)
TIMES = [50, 10, 70, 70, 20, 90, 60, 30]


def segment() -> bytes:
    """Eight batches of two records, timestamps out of order."""
    data = bytearray()
    for number, timestamp in enumerate(TIMES):
        one = batch(b"v" * 50, b"w" * 50, timestamp=timestamp)
        patch_offset(one, base_offset=Offset(BASE + 2 * number), leader_epoch=LeaderEpoch(1))
        data += one
    return bytes(data)


def filled(data: bytes, *, interval_bytes: int) -> SegmentIndexes:
    indexes = SegmentIndexes(BASE, interval_bytes=interval_bytes)
    for position, header in iter_batches(data):
        indexes.visit(header, Position(position))
    return indexes


def disk_with(data: bytes) -> SimDisk:
    disk = SimDisk()
    disk.mkdir("/p")
    disk.open("/p/log", create=True).pwrite(data, 0)
    return disk


def load(disk: SimDisk, *, size: int, next_offset: int) -> SegmentIndexes | None:
    return load_indexes(
        disk,
        "/p",
        BASE,
        size=Position(size),
        next_offset=Offset(next_offset),
        interval_bytes=1,
    )


def test_an_entry_is_added_every_so_many_bytes() -> None:
    data = segment()
    one = len(data) // 8
    assert len(filled(data, interval_bytes=0).offsets) == 8
    assert len(filled(data, interval_bytes=one).offsets) == 7  # The first needs no entry.
    assert len(filled(data, interval_bytes=3 * one).offsets) == 2
    assert len(filled(data, interval_bytes=len(data)).offsets) == 0


def test_every_entry_of_the_time_index_tells_the_truth() -> None:
    data = segment()
    indexes = filled(data, interval_bytes=1)
    indexes.to_bytes()
    stamps = {BASE + n: TIMES[n // 2] + n % 2 for n in range(16)}
    for moment in range(100):
        entry = indexes.times.before(TimestampMs(moment))
        if entry is not None:
            until = [stamps[at] for at in stamps if at <= entry.last_offset]
            assert max(until) == entry.timestamp < moment


def test_the_time_index_ends_with_the_largest_timestamp() -> None:
    indexes = filled(segment(), interval_bytes=1 << 20)
    offsets, times = indexes.to_bytes()
    assert offsets == b""
    assert times.hex() == f"{91:016x}" + f"{11:08x}"
    assert indexes.to_bytes()[1] == times


def test_what_was_written_is_loaded() -> None:
    data = segment()
    disk = disk_with(data)
    content = filled(data, interval_bytes=1).to_bytes()
    write_indexes(disk, "/p", BASE, content)
    loaded = load(disk, size=len(data), next_offset=BASE + 16)
    assert loaded is not None
    assert (loaded.offsets.to_bytes(), loaded.times.to_bytes()) == content


def test_entries_behind_the_known_end_are_cut() -> None:
    data = segment()
    disk = disk_with(data)
    write_indexes(disk, "/p", BASE, filled(data, interval_bytes=1).to_bytes())
    half = len(data) // 2
    loaded = load(disk, size=half, next_offset=BASE + 8)
    expected = filled(data[:half], interval_bytes=1)
    assert loaded is not None
    assert (loaded.offsets.to_bytes(), loaded.times.to_bytes()) == expected.to_bytes()


@pytest.mark.parametrize("name", ["index", "timeindex"])
@pytest.mark.parametrize("injury", ["missing", "odd size", "does not rise"])
def test_files_that_cannot_be_used_are_not(name: str, injury: str) -> None:
    data = segment()
    disk = disk_with(data)
    write_indexes(disk, "/p", BASE, filled(data, interval_bytes=1).to_bytes())
    path = f"/p/{BASE:020d}.{name}"
    if injury == "missing":
        disk.unlink(path)
    elif injury == "odd size":
        disk.open(path, write=True).truncate(13)
    else:
        disk.corrupt(path, 0, bytes([255] * 8))
    assert load(disk, size=len(data), next_offset=BASE + 16) is None


def test_indexes_built_from_the_batches_are_those_that_were_written_along() -> None:
    data = segment()
    built = build_indexes(
        disk_with(data).open("/p/log"),
        BASE,
        size=Position(len(data)),
        next_offset=Offset(BASE + 16),
        contiguous=True,
        interval_bytes=300,
    )
    assert built.to_bytes() == filled(data, interval_bytes=300).to_bytes()
