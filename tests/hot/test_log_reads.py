"""Reads that the disk refuses: told in words of this room, got around where it can be."""

import pytest

from tests.hot.support import append_values, open_log, read_values
from tests.hot.test_log_files import FewFiles
from tierlog.hot import Log
from tierlog.hot.errors import ReadFailed, TooManyFiles
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset, TimestampMs

FIRST = "/data/p/00000000000000000000"


def sealed_and_active(disk: SimDisk) -> Log:
    """Segments at 0 and 20, opened anew: nothing is in memory."""
    log, _ = open_log(disk)
    for number in range(20):
        append_values(log, b"%d" % number * 50)
    assert len(log.segments) == 1
    log.roll()
    append_values(log, b"later")
    log.close_now()
    disk.kill()
    return open_log(disk)[0]


def test_a_log_file_that_cannot_be_read_is_named() -> None:
    disk = SimDisk()
    log = sealed_and_active(disk)
    disk.fail_reads(f"{FIRST}.log")
    with pytest.raises(ReadFailed, match=r"00000000000000000000\.log") as failed:
        log.read(Offset(3), bytes_max=100)
    assert failed.value.path == f"{FIRST}.log"
    with pytest.raises(ReadFailed):
        log.find_by_time(TimestampMs(0))
    with pytest.raises(ReadFailed):
        log.latest_by_time()
    assert read_values(log, 20) == {20: b"later"}
    disk.heal_reads(f"{FIRST}.log")
    assert len(read_values(log)) == 21


def test_a_log_file_that_vanished_is_named() -> None:
    disk = SimDisk()
    log = sealed_and_active(disk)
    disk.unlink(f"{FIRST}.log")
    with pytest.raises(ReadFailed, match=r"00000000000000000000\.log"):
        log.read(Offset(3), bytes_max=100)
    assert read_values(log, 20) == {20: b"later"}


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_an_index_that_cannot_be_read_is_rebuilt(suffix: str) -> None:
    disk = SimDisk()
    log = sealed_and_active(disk)
    disk.fail_reads(f"{FIRST}.{suffix}")
    assert len(read_values(log)) == 21
    assert log.find_by_time(TimestampMs(0)) == (0, 1_700_000_000_000)


def test_a_read_without_a_free_file_says_so() -> None:
    disk = FewFiles(100)
    log = sealed_and_active(disk)
    disk.files_max = 0
    with pytest.raises(TooManyFiles):
        log.read(Offset(3), bytes_max=100)
    disk.files_max = 100
    assert len(read_values(log)) == 21
