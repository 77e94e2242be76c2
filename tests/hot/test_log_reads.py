"""Reads that the disk refuses: told in words of this room, got around where it can be."""

import pytest

from tests.hot.support import append_values, open_log, read_values
from tests.hot.test_log_files import FewFiles
from tierlog.hot import Log, LogSettings
from tierlog.hot.errors import ReadFailed, TooManyFiles
from tierlog.hot.reader import UNCHECKED_MAX
from tierlog.records.batch import iter_batches
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


def test_one_read_checks_a_mebibyte_of_old_bytes_at_most() -> None:
    """Checking holds up the loop; what was checked is given in one piece."""
    disk = SimDisk()
    roomy = LogSettings()
    log, _ = open_log(disk, roomy)
    for _ in range(30):
        append_values(log, b"x" * 100_000)
    append_values(log, b"y" * (UNCHECKED_MAX + 1))
    log.close_now()
    disk.kill()
    log, _ = open_log(disk, roomy)
    offset, sizes = Offset(0), []
    while offset < 30:
        data = log.view(offset, bytes_max=50 << 20)
        sizes.append(len(data))
        offset = max(header.next_offset for _, header in iter_batches(bytes(data)))
    assert max(sizes[:-1]) <= UNCHECKED_MAX
    assert min(sizes) > UNCHECKED_MAX - 110_000
    if offset == 30:
        assert len(log.view(Offset(30), bytes_max=1)) > UNCHECKED_MAX
    assert len(log.view(Offset(0), bytes_max=50 << 20)) == log.size_bytes
