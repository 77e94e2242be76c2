"""A log on a disk that fills up, fails to sync, fails to write: what is refused, what is kept."""

import errno
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from tests.hot.support import (
    SMALL,
    FixedClock,
    append,
    append_values,
    batch,
    env_on,
    open_log,
    read_values,
)
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.hot.checkpoint import load_checkpoint
from tierlog.hot.errors import (
    AlreadyOpen,
    DirectoryInUse,
    DiskFull,
    LogBroken,
    LogClosed,
    OffsetOutOfRange,
)
from tierlog.hot.store import RESERVE_STEP_MIN
from tierlog.hot.sync import ManualSyncs
from tierlog.sim.disk import SimDisk
from tierlog.sim.file import SimFile
from tierlog.types import Offset, TimestampMs

LAZY = LogSettings(segment_bytes=4096, flush_messages=1000)


def two_logs(disk: SimDisk) -> tuple[Log, Log, ManualSyncs]:
    syncs = ManualSyncs()
    directory = LogDirectory(env_on(disk), "/data", syncs=syncs, reserve_bytes=0)
    return Log(directory, "p", SMALL), Log(directory, "q", SMALL), syncs


# A full disk


def fill(log: Log) -> int:
    """Append until it is refused; returns the log end."""
    for _ in range(100):
        try:
            append_values(log, b"x" * 1000)
        except DiskFull as full:
            assert "1048576 are kept in reserve" in str(full)  # noqa: PT017  # on every refusal
            return log.log_end
    raise AssertionError("the disk never filled up")


def test_an_append_that_would_eat_into_the_reserve_is_refused_and_nothing_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimDisk(capacity=64 << 20)
    syncs = ManualSyncs()
    directory = LogDirectory(env_on(disk), "/data", syncs=syncs, reserve_bytes=1 << 20)
    log = Log(directory, "p", SMALL)
    append_values(log, b"before")
    syncs.run_all()
    disk.capacity = disk.used + (1 << 20) + 100
    end = fill(log)
    assert fill(log) == end
    assert [line.levelname for line in caplog.records] == ["ERROR"], "told once"
    assert directory.is_full
    syncs.run_all()
    assert log.durable_end == end
    disk.capacity = 64 << 20
    assert [directory.is_full] == [False], "whether or not somebody appends"
    assert append_values(log, b"after").base_offset == end
    syncs.run_all()
    assert sorted(read_values(log)) == list(range(end + 1))
    log.close_now()


def test_a_disk_that_fills_up_in_the_middle_of_a_batch_refuses_it_whole() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"first")
    syncs.run_all()
    with patch.object(SimFile, "fallocate", lambda self, size: None):
        disk.capacity = disk.used
        log.segments.active._store._reserved = 0  # type: ignore[union-attr]  # as after a restart
        with pytest.raises(DiskFull):
            append_values(log, b"x" * 6000)
    assert log.log_end == 1
    disk.capacity = 1 << 40
    assert append_values(log, b"second").base_offset == 1
    syncs.run_all()
    disk.kill()
    log, _ = open_log(disk)
    assert read_values(log) == {0: b"first", 1: b"second"}
    assert log.gaps == []


def test_an_idempotent_batch_refused_by_a_full_disk_may_be_sent_again() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    for sequence in range(2):
        append(log, batch(b"x", producer_id=1, producer_epoch=0, base_sequence=sequence))
    third = batch(b"y" * 5000, producer_id=1, producer_epoch=0, base_sequence=2)
    disk.capacity = disk.used
    with pytest.raises(DiskFull):
        append(log, bytearray(third))
    disk.capacity = 1 << 40
    placed = append(log, third)
    assert (placed.base_offset, placed.is_duplicate) == (2, False)
    syncs.run_all()
    assert read_values(log)[2] == b"y" * 5000


def test_a_roll_on_a_full_disk_leaves_the_log_as_it_was() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x")
    free = disk.capacity
    log._directory.reserve_bytes = 1 << 50
    with pytest.raises(DiskFull):
        log.roll()
    log._directory.reserve_bytes = 0
    assert (len(log.segments), disk.capacity) == (1, free)
    assert append_values(log, b"y").base_offset == 1
    syncs.run_all()


# A broken disk


def test_after_a_failed_fsync_every_log_of_the_directory_refuses() -> None:
    disk = SimDisk()
    log, other, syncs = two_logs(disk)
    append_values(log, b"x")
    append_values(other, b"y")
    disk.fail_fsync()
    with pytest.raises(LogBroken):
        syncs.run_all()
    assert log.visible_end == other.visible_end == 0
    for one in (log, other):
        with pytest.raises(LogBroken):
            append_values(one, b"z")
        with pytest.raises(LogBroken):
            one.trim(Offset(0))
        with pytest.raises(LogBroken):
            one.truncate(Offset(0))
    with pytest.raises(LogBroken):
        Log(log._directory, "r", SMALL)


@pytest.mark.parametrize("seed", range(8))
def test_what_a_failed_fsync_dropped_is_not_vouched_for_by_closing(seed: int) -> None:
    """The page cache still shows the data and a second fsync succeeds; the platter has nothing."""
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"durable")
    syncs.run_all()
    append_values(log, b"dropped" * 100)
    disk.fail_fsync(rng=Random(seed))
    with pytest.raises(LogBroken):
        syncs.run_all()
    log.close_now()
    checkpoint = load_checkpoint(disk, "/data/p")
    assert checkpoint is not None
    assert checkpoint.durable_end <= 1
    assert sum(one.size for one in checkpoint.segments) <= len(batch(b"durable"))
    disk.drop_caches()
    disk.kill()
    log, _ = open_log(disk)
    # The rest was never acknowledged: it may be whole, or called damaged because nobody rebooted.
    assert read_values(log, end=1) == {0: b"durable"}


def test_after_a_failed_fsync_and_a_kill_the_scanned_bytes_are_synced_before_they_count() -> None:
    """The kernel calls the dropped pages clean; recovery takes what it can really read."""
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"one")
    syncs.run_all()
    append_values(log, b"two")
    disk.fail_fsync()
    with pytest.raises(LogBroken):
        syncs.run_all()
    disk.drop_caches()
    disk.kill()
    log, syncs = open_log(disk)
    assert read_values(log) == {0: b"one"}
    assert append_values(log, b"three").base_offset >= 1
    syncs.run_all()
    assert b"three" in read_values(log).values()


@pytest.mark.parametrize("seed", range(10))
def test_what_a_restart_shows_after_a_failed_fsync_survives_a_power_cut(seed: int) -> None:
    """The dropped pages are still in the cache and count as clean: they must be written again."""
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"one" * 100)
    syncs.run_all()
    for _ in range(3):
        append_values(log, b"two" * 300)
    disk.fail_fsync()
    with pytest.raises(LogBroken):
        syncs.run_all()
    disk.kill()
    log, _ = open_log(disk)
    shown = read_values(log)
    assert len(shown) == 4
    log, _ = open_log(disk.after_power_cut(Random(seed)))
    assert read_values(log) == shown


def test_a_failed_write_latches() -> None:
    disk = SimDisk()
    log, other, _ = two_logs(disk)

    def fail(self: SimFile, data: Any, position: int) -> int:
        raise OSError(errno.EIO, "I/O error")

    with patch.object(SimFile, "pwrite", fail), pytest.raises(LogBroken, match="I/O error"):
        append_values(log, b"x")
    with pytest.raises(LogBroken):
        append_values(other, b"x")


def test_a_failed_create_at_a_roll_latches() -> None:
    disk = SimDisk()
    log, other, _ = two_logs(disk)
    append_values(log, b"x")
    with (
        patch.object(SimDisk, "open", side_effect=OSError(errno.EIO, "I/O error")),
        pytest.raises(LogBroken),
    ):
        log.roll()
    with pytest.raises(LogBroken):
        append_values(other, b"x")


def test_a_failed_directory_sync_latches() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x")
    log.roll()
    disk.fail_sync_dir()
    with pytest.raises(LogBroken):
        syncs.run_all()
    assert log.durable_end == 0


def test_a_truncation_that_fails_latches() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x")
    syncs.run_all()
    disk.fail_fsync()
    with pytest.raises(LogBroken):
        log.truncate(Offset(0))
    with pytest.raises(LogBroken):
        append_values(log, b"y")


def test_whoever_owns_the_directory_hears_once_that_it_broke() -> None:
    told: list[LogBroken] = []
    disk = SimDisk()
    syncs = ManualSyncs()
    directory = LogDirectory(
        env_on(disk), "/data", syncs=syncs, reserve_bytes=0, on_broken=told.append
    )
    log = Log(directory, "p", SMALL)
    append_values(log, b"x")
    disk.fail_fsync()
    with pytest.raises(LogBroken):
        syncs.run_all()
    syncs.latch(OSError("again"))
    assert len(told) == 1


# Closing and refusing


def test_a_second_process_is_refused() -> None:
    disk = SimDisk()
    first = LogDirectory(env_on(disk), "/data", syncs=ManualSyncs())
    with pytest.raises(DirectoryInUse, match="/data is in use"):
        LogDirectory(env_on(disk), "/data", syncs=ManualSyncs())
    first.close()
    LogDirectory(env_on(disk), "/data", syncs=ManualSyncs())


def test_a_partition_that_is_open_is_not_opened_again() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x")
    before = disk.op_count
    for name in ("p", "./p", "p/"):
        with pytest.raises(AlreadyOpen, match="open already"):
            Log(log._directory, name, SMALL)
    assert disk.op_count == before
    syncs.run_all()
    log.close_now()
    assert read_values(Log(log._directory, "p", SMALL)) == {0: b"x"}


def test_a_partition_that_could_not_be_opened_may_be_tried_again() -> None:
    log, _ = open_log(SimDisk())
    with (
        patch.object(SimDisk, "open", side_effect=OSError(errno.EIO, "I/O error")),
        pytest.raises(OSError, match="I/O error"),
    ):
        Log(log._directory, "q", SMALL)
    assert Log(log._directory, "q", SMALL).log_end == 0


def test_closing_twice_is_closing_once() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x")
    log.close_now()
    before = disk.op_count
    log.close_now()
    syncs.run_all()
    assert disk.op_count == before
    assert syncs.broken is None


def test_a_closed_log_refuses_everything_that_writes() -> None:
    log, _ = open_log(SimDisk())
    append_values(log, b"x")
    log.close_now()
    with pytest.raises(LogClosed):
        log.roll()
    with pytest.raises(LogClosed):
        log.trim(Offset(1))
    with pytest.raises(LogClosed):
        log.truncate(Offset(0))


def test_a_trim_past_a_segment_that_waits_for_its_sync_is_done_when_the_log_is_closed() -> None:
    disk = SimDisk()
    log, _ = open_log(disk, LAZY)
    append_values(log, b"x")
    log.roll()
    log.trim(Offset(1))
    log.close_now()
    assert not disk.exists("/data/p/00000000000000000000.log")


@pytest.mark.parametrize("synced", [True, False])
def test_a_closed_log_gives_back_the_blocks_it_reserved(synced: bool) -> None:
    disk = SimDisk()
    log, syncs = open_log(disk, LogSettings())
    append_values(log, b"x")
    if synced:
        syncs.run_all()
        log._directory.pool.forget(log.segments.active.path)
    assert disk.used > RESERVE_STEP_MIN
    log.close_now()
    assert disk.used < RESERVE_STEP_MIN
    disk.kill()
    log, _ = open_log(disk)
    assert (log.scanned_bytes, read_values(log)) == (0, {0: b"x"})


def test_a_closed_log_is_not_read() -> None:
    log, _ = open_log(SimDisk())
    append_values(log, b"x")
    log.close_now()
    with pytest.raises(LogClosed):
        log.read(Offset(0), bytes_max=10)
    with pytest.raises(LogClosed):
        log.find_by_time(TimestampMs(0))
    with pytest.raises(LogClosed):
        log.latest_by_time()
    assert len(log._directory.pool) == 0


def test_a_log_in_a_closed_directory_is_not_read() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x")
    syncs.run_all()
    log._directory.close()
    with pytest.raises(LogClosed, match="directory is closed"):
        log.read(Offset(0), bytes_max=10)
    assert len(log._directory.pool) == 0


def test_a_close_that_cannot_sync_latches() -> None:
    disk = SimDisk()
    log, other, _ = two_logs(disk)
    append_values(log, b"x")
    disk.fail_fsync()
    with pytest.raises(LogBroken):
        log.close_now()
    with pytest.raises(LogBroken):
        append_values(other, b"x")


def test_nothing_that_is_not_visible_can_be_trimmed() -> None:
    log, syncs = open_log(SimDisk())
    append_values(log, b"x", b"y")
    with pytest.raises(OffsetOutOfRange):
        log.trim(Offset(1))
    syncs.run_all()
    log.trim(Offset(1))
    assert (log.log_start, log.visible_end) == (1, 2)


def test_a_trim_past_a_segment_that_is_being_synced_removes_it_afterwards() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x" * 100)
    syncs.run_all()
    log.roll()
    append_values(log, b"y")
    job = log.begin_sync()
    log.durable_end = log.log_end
    log.trim(Offset(1))
    assert len(log.segments) == 2
    job.run()
    log.end_sync(job)
    syncs.run_all()
    assert [segment.base_offset for segment in log.segments] == [1]
    assert not disk.exists("/data/p/00000000000000000000.log")


# Truncating


def test_truncating_to_the_end_does_not_vouch_for_what_was_never_synced() -> None:
    for seed in range(20):
        disk = SimDisk()
        log, _ = open_log(disk, LAZY)
        append_values(log, b"x" * 700)
        append_values(log, b"y" * 700)
        ops = disk.op_count

        def cut(_: str, disk: SimDisk = disk, last: int = ops + seed % 12) -> None:
            if disk.op_count == last:
                raise KeyboardInterrupt

        disk.on_op = cut
        with pytest.raises(KeyboardInterrupt):
            log.truncate(log.log_end)
        after = disk.after_power_cut(Random(seed))
        log, _ = open_log(after, LAZY)
        read_values(log)  # What is there is whole: nothing unsound was believed.


def test_truncating_inside_the_batch_that_the_log_start_cuts_leaves_an_empty_log() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"a", b"b", b"c", b"d")
    append_values(log, b"e")
    syncs.run_all()
    log.trim(Offset(2))
    syncs.run_all()
    log.truncate(Offset(3))
    assert log.log_start <= log.visible_end <= log.log_end
    assert (log.log_start, log.log_end) == (2, 2)
    assert append_values(log, b"new").base_offset == 2
    syncs.run_all()
    assert list(read_values(log).values())[-1] == b"new"
    disk.kill()
    log, _ = open_log(disk)
    assert read_values(log)[2] == b"new"


def test_truncating_to_the_very_beginning() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk, start=10)
    for number in range(30):
        append_values(log, b"%d" % number * 300)
    syncs.run_all()
    log.truncate(Offset(10))
    assert (log.log_start, log.log_end, len(log.segments)) == (10, 10, 1)
    assert append_values(log, b"new").base_offset == 10


def test_truncating_into_damage_leaves_a_tail_that_reads_as_empty() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"a", b"b")
    append_values(log, b"c", b"d", b"e")
    syncs.run_all()
    disk.kill()
    disk.flip_bit(
        "/data/p/00000000000000000000.log", disk.size("/data/p/00000000000000000000.log") - 1, 0
    )
    disk.unlink("/data/p/partition.checkpoint")
    log, syncs = open_log(disk)
    assert log.segments.damage == [(2, 5)]
    log.truncate(Offset(3))
    assert log.log_end == 2
    assert log.read(Offset(2), bytes_max=100) == b""
    append_values(log, b"C", b"D")
    syncs.run_all()
    assert read_values(log) == {0: b"a", 1: b"b", 2: b"C", 3: b"D"}


def test_rolling_by_time_follows_the_wall_clock_of_the_first_append() -> None:
    log, _ = open_log(SimDisk(), LogSettings(segment_ms=1000))
    assert not log.roll_due(10**15)
    append(log, batch(b"x"), now_ms=5000)
    append(log, batch(b"y"), now_ms=5900)
    assert not log.roll_due(5999)
    assert log.roll_due(6000)
    log.roll()
    assert not log.roll_due(10**15)


def test_the_first_append_is_remembered_over_a_restart() -> None:
    disk = SimDisk()
    settings = LogSettings(segment_ms=1000)
    log, syncs = open_log(disk, settings)
    append(log, batch(b"x"), now_ms=FixedClock().ms - 700)
    syncs.run_all()
    log.close_now()
    disk.kill()
    log, _ = open_log(disk, settings)
    assert log.roll_due(FixedClock().ms + 300)
    assert not log.roll_due(FixedClock().ms + 299)


def test_a_segment_whose_relative_offsets_run_out_is_followed_by_another() -> None:
    log, _ = open_log(SimDisk(), LogSettings())
    append_values(log, b"x")
    log.segments.active.base_offset = Offset(-(2**31 - 1))
    append_values(log, b"y")
    assert [segment.base_offset for segment in log.segments][1:] == [1]
