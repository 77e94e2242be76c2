"""Sync jobs on a disk that is full, or in a process with too many open files: put off, not lost."""

import asyncio
import errno
from typing import Any
from unittest.mock import patch

import pytest

from tests.hot.support import SMALL, append_values, env_on, open_log, read_values
from tests.hot.test_log_files import FewFiles
from tierlog.hot import Log, LogDirectory, sync
from tierlog.hot.checkpoint import Checkpoint, load_checkpoint, store_checkpoint
from tierlog.hot.errors import DiskFull, LogBroken, TooManyFiles
from tierlog.hot.sync import ManualSyncs
from tierlog.sim.disk import SimDisk
from tierlog.sim.file import SimFile
from tierlog.types import Offset

FIRST = "/data/p/00000000000000000000"


def two_segments(disk: SimDisk) -> tuple[Log, Any]:
    log, syncs = open_log(disk)
    append_values(log, b"x" * 100)
    syncs.run_all()
    log.roll()
    append_values(log, b"y")
    syncs.run_all()
    return log, syncs


def test_a_trim_on_a_full_disk_waits_for_space() -> None:
    disk = SimDisk()
    log, syncs = two_segments(disk)
    disk.capacity = disk.used
    log.trim(Offset(1))
    with pytest.raises(DiskFull):
        syncs.run_all()
    assert syncs.broken is None
    assert disk.exists(f"{FIRST}.log")
    disk.capacity = 1 << 40
    syncs.request(log)
    syncs.run_all()
    assert not disk.exists(f"{FIRST}.log")
    checkpoint = load_checkpoint(disk, "/data/p")
    assert checkpoint is not None
    assert checkpoint.log_start == 1


def full_and_expired(disk: SimDisk) -> tuple[Log, ManualSyncs]:
    """Two segments, the second active, on a disk that has its reserve left and nothing else."""
    log, syncs = two_segments(disk)
    log._directory.reserve_bytes = 1 << 20
    disk.capacity = disk.used + (1 << 16)
    with pytest.raises(DiskFull):
        log.roll()
    assert log.expired_end(now_ms=1 << 60, retention_ms=0) == 2
    return log, syncs


def test_what_expired_goes_on_a_full_disk_and_makes_room() -> None:
    disk = SimDisk()
    log, syncs = full_and_expired(disk)
    log.trim_expired(Offset(2))
    syncs.run_all()
    syncs.run_all()
    assert (log.log_start, log.log_end, log.size_bytes) == (2, 2, 0)
    assert [name for name in disk.listdir(log.path) if name.endswith(".log")] == [f"{2:020d}.log"]


def test_without_a_block_for_a_new_segment_the_sealed_ones_go_and_the_active_one_later() -> None:
    disk = SimDisk()
    log, syncs = full_and_expired(disk)
    full = OSError(errno.ENOSPC, "no space")
    with patch.object(SimDisk, "open", side_effect=full):
        log.trim_expired(Offset(2))
    assert log.log_start == 1
    syncs.run_all()
    assert not disk.exists(f"{FIRST}.log")
    assert read_values(log) == {1: b"y"}
    assert log.expired_end(now_ms=1 << 60, retention_ms=0) == 2
    log.trim_expired(Offset(2))
    assert log.log_start == 2


def test_appends_are_durable_although_their_checkpoint_does_not_fit() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x" * 100)
    syncs.run_all()
    log.roll()
    append_values(log, b"y" * 100)
    disk.capacity = disk.used
    with pytest.raises(DiskFull):
        syncs.run_all()
    assert (log.durable_end, syncs.broken) == (2, None)
    assert not disk.exists(f"{FIRST}.index") or disk.size(f"{FIRST}.index") == 0
    disk.capacity = 1 << 40
    append_values(log, b"z")
    syncs.run_all()
    assert disk.size(f"{FIRST}.timeindex") > 0
    assert read_values(log) == {0: b"x" * 100, 1: b"y" * 100, 2: b"z"}
    disk.kill()
    log, _ = open_log(disk)
    assert sorted(read_values(log)) == [0, 1, 2]


def test_a_close_on_a_full_disk_says_so_and_may_be_repeated() -> None:
    disk = SimDisk()
    log, syncs = two_segments(disk)
    append_values(log, b"z")
    disk.capacity = disk.used
    with pytest.raises(DiskFull):
        log.close_now()
    assert syncs.broken is None
    disk.capacity = 1 << 40
    log.close_now()
    checkpoint = load_checkpoint(disk, "/data/p")
    assert checkpoint is not None
    assert (checkpoint.clean, checkpoint.durable_end) == (True, 3)


def test_a_log_file_that_does_not_fit_at_its_sync_latches() -> None:
    """Delayed allocation: the kernel found no block, and nobody knows which pages it dropped."""
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x")

    def fail(self: SimFile) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with patch.object(SimFile, "fdatasync", fail), pytest.raises(LogBroken):
        syncs.run_all()
    assert log.durable_end == 0


def test_a_directory_sync_that_finds_the_disk_full_latches() -> None:
    disk = SimDisk()
    log, syncs = open_log(disk)
    append_values(log, b"x")
    log.roll()
    full = OSError(errno.ENOSPC, "no space")
    with patch.object(SimDisk, "sync_dir", side_effect=full), pytest.raises(LogBroken):
        syncs.run_all()


def test_a_truncation_on_a_full_disk_leaves_the_log_as_it_was() -> None:
    disk = SimDisk()
    log, syncs = two_segments(disk)
    append_values(log, b"z", leader_epoch=2)
    syncs.run_all()
    disk.capacity = disk.used
    with pytest.raises(DiskFull):
        log.truncate(Offset(1))
    disk.capacity = 1 << 40
    assert (log.log_end, log.epochs.latest, syncs.broken) == (3, 2, None)
    log.truncate(Offset(1))
    assert (log.log_end, log.epochs.latest) == (1, 1)


def test_a_sync_job_without_a_free_file_is_put_off() -> None:
    disk = FewFiles(100)
    log, syncs = open_log(disk)
    append_values(log, b"x")
    log.roll()
    append_values(log, b"y")
    disk.files_max = 0
    with pytest.raises(TooManyFiles):
        syncs.run_all()
    assert log.durable_end == 0  # The name of the new segment may still get lost.
    disk.files_max = 100
    syncs.run_all()
    assert log.durable_end == 2
    assert disk.exists(f"{FIRST}.index")


async def test_whoever_settles_hears_that_the_disk_is_full_and_may_ask_again() -> None:
    disk = SimDisk()
    log, _ = two_segments(disk)
    log.close_now()
    log._directory.close()
    log = Log(LogDirectory(env_on(disk), "/data", reserve_bytes=0), "p", SMALL)
    disk.capacity = disk.used
    log.trim(Offset(1))
    with pytest.raises(DiskFull):
        await log.settle()
    assert log._directory.broken is None
    disk.capacity = 1 << 40
    await log.settle()
    assert not disk.exists(f"{FIRST}.log")
    await log.close()


async def test_a_job_that_could_not_make_its_batches_durable_is_tried_again() -> None:
    disk = FewFiles(100)
    directory = LogDirectory(env_on(disk), "/data", reserve_bytes=0)
    log = Log(directory, "p", SMALL)
    append_values(log, b"x")
    log.roll()
    append_values(log, b"y")
    waiter = log.wait_visible(Offset(2))
    disk.files_max = 0
    with patch.object(sync, "RETRY_SECONDS", 0):
        with pytest.raises(TooManyFiles):
            await log.settle()
        assert not waiter.done()
        assert not directory.syncs.is_idle(log)
        disk.files_max = 100
        await asyncio.wait_for(waiter, 10)
    await log.close()


async def test_what_a_full_disk_put_off_is_done_when_space_is_back() -> None:
    disk = SimDisk()
    directory = LogDirectory(env_on(disk), "/data", reserve_bytes=0)
    log = await directory.open_log("p", SMALL)
    append_values(log, b"a")
    await log.settle()
    loop, is_stored = asyncio.get_running_loop(), asyncio.Event()
    refusals = [OSError(errno.ENOSPC, "full") for _ in range(3)]

    def store(disk: SimDisk, path: str, checkpoint: Checkpoint) -> None:
        if refusals:
            raise refusals.pop()
        store_checkpoint(disk, path, checkpoint)
        loop.call_soon_threadsafe(is_stored.set)

    with (
        patch.object(sync, "POSTPONED_SECONDS", 0),
        patch("tierlog.hot.job.store_checkpoint", store),
    ):
        log.trim(Offset(1))
        # Nobody asks for anything more: the scheduler does.
        await asyncio.wait_for(is_stored.wait(), 10)
    found = load_checkpoint(disk, log.path)
    assert found is not None
    assert found.log_start == 1
    await log.close()
    directory.close()


async def test_a_log_that_is_closed_meanwhile_is_not_asked_again() -> None:
    disk = SimDisk()
    directory = LogDirectory(env_on(disk), "/data", reserve_bytes=0)
    scheduler = directory.syncs
    assert isinstance(scheduler, sync.SyncScheduler)
    log = await directory.open_log("p", SMALL)
    full = OSError(errno.ENOSPC, "full")
    with patch("tierlog.hot.job.store_checkpoint", side_effect=full):
        log.trim(Offset(0))
        with pytest.raises(DiskFull):
            await log.settle()
        assert scheduler._postponed
        assert scheduler.is_idle(log), "nobody waits for it"
    await log.close()
    assert not scheduler._postponed
    directory.close()
