"""Recovery meets directories that no orderly life of a log leaves behind."""

from random import Random

import pytest

from tests.hot.support import append, append_values, batch, open_log, read_values
from tierlog.hot import Log, LogSettings
from tierlog.hot.errors import DamagedOffsets, LogBroken
from tierlog.records.batch import patch_offset
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset

ROOMY = LogSettings()
SEGMENTS = LogSettings(segment_bytes=1024, index_interval_bytes=256)


def log_path(base: int) -> str:
    return f"/data/p/{base:020d}.log"


def shorten(disk: SimDisk, path: str, by: int) -> None:
    file = disk.open(path, write=True)
    file.truncate(file.size() - by)
    file.close()


def closed_log(disk: SimDisk, count: int, settings: LogSettings = SEGMENTS) -> Log:
    log, syncs = open_log(disk, settings)
    for number in range(count):
        append_values(log, b"%04d" % number * 20)
    syncs.run_all()
    log.close_now()
    disk.kill()
    return log


@pytest.mark.parametrize("offset", [4, 7, 10**9, 2**62])
def test_a_batch_inside_a_torn_record_is_not_taken_for_the_logs_own(offset: int) -> None:
    disk = SimDisk()
    log, syncs = open_log(disk, ROOMY)
    for number in range(3):
        append_values(log, b"v%d" % number)
    syncs.run_all()
    inner = batch(b"PHANTOM")
    patch_offset(inner, Offset(offset), LeaderEpoch(1))
    append_values(log, b"a" * 1000 + bytes(inner) + b"z" * 3000)
    shorten(disk, log_path(0), 1500)  # A kill in the middle of the write.
    disk.kill()
    log, _ = open_log(disk, ROOMY)
    assert (log.log_end, sorted(read_values(log))) == (4, [0, 1, 2])
    assert [gap.kind for gap in log.gaps] == ["torn"]


@pytest.mark.parametrize("seed", range(20))
def test_a_failed_fsync_in_a_boot_that_wrote_no_checkpoint_loses_nothing(seed: int) -> None:
    disk = SimDisk()
    closed_log(disk, 1, ROOMY)
    disk.power_cut(Random(seed))
    log, syncs = open_log(disk, ROOMY)

    def mine() -> bytearray:
        return batch(b"mine" * 50, producer_id=5, producer_epoch=0, base_sequence=0)

    append(log, mine())
    disk.fail_fsync()
    with pytest.raises(LogBroken):
        syncs.run_all()
    disk.kill()
    log, syncs = open_log(disk, ROOMY)
    assert append(log, mine()).is_duplicate
    shown = read_values(log)
    log, _ = open_log(disk.after_power_cut(Random(seed)), ROOMY)
    assert read_values(log) == shown
    assert len(shown) == 2


def test_a_segment_that_vanishes_behind_a_torn_gap_is_reported() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk, SEGMENTS)
    for number in range(5):
        append_values(log, b"%04d" % number * 10)
    syncs.run_all()
    append_values(log, b"torn" * 100)
    shorten(disk, log_path(0), 50)
    disk.kill()
    log, syncs = open_log(disk, SEGMENTS)
    assert [(gap.start, gap.end, gap.kind) for gap in log.gaps] == [(5, 6, "torn")]
    for number in range(40):
        append_values(log, b"%04d" % number * 10)
    syncs.run_all()
    log.close_now()
    disk.kill()
    _, second, third, *_ = [segment.base_offset for segment in log.segments]
    disk.unlink(log_path(second))
    log, _ = open_log(disk, SEGMENTS)
    assert [(gap.start, gap.end, gap.kind) for gap in log.gaps] == [(6, third, "damaged")]
    with pytest.raises(DamagedOffsets):
        log.read(Offset(5), bytes_max=100)
    assert log.read(third, bytes_max=100)


@pytest.mark.parametrize("content", [b"", bytes(batch(b"stray"))])
@pytest.mark.parametrize("killed", [False, True])
def test_a_stray_segment_inside_another_hides_nothing(content: bytes, killed: bool) -> None:
    disk = SimDisk()
    log, syncs = open_log(disk, ROOMY)
    for number in range(100):
        append_values(log, b"%04d" % number)
    syncs.run_all()
    if not killed:
        log.close_now()
    disk.kill()
    stray = disk.open(log_path(50), create=True)
    stray.pwrite(content, 0)
    stray.close()
    log, _ = open_log(disk, ROOMY)
    assert len(read_values(log)) == 100
    assert not log.gaps
    assert disk.exists(log_path(50) + ".stray") == bool(content)


def test_a_lost_segment_that_is_put_back_is_read_again() -> None:
    disk = SimDisk()
    log = closed_log(disk, 40)
    first, second, *_ = [segment.base_offset for segment in log.segments]
    kept = disk.open(log_path(first)).pread(1 << 20, 0)
    disk.kill()
    disk.unlink(log_path(first))
    log, _ = open_log(disk, SEGMENTS)
    assert [(gap.start, gap.end) for gap in log.gaps] == [(0, second)]
    log.close_now()
    disk.kill()
    disk.open(log_path(first), create=True).pwrite(kept, 0)
    log, _ = open_log(disk, SEGMENTS)
    assert len(read_values(log)) == 40
