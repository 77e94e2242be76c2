"""The sync scheduler on a loop: when jobs run, who is told what."""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.hot.support import SMALL, append, append_values, batch, env_on, open_log, read_values
from tierlog.env import LocalTasks, SystemClock, SystemRng, local_env
from tierlog.env.env import Env
from tierlog.hot import Log, LogDirectory, LogSettings, smallfile
from tierlog.hot.checkpoint import load_checkpoint
from tierlog.hot.errors import LogBroken, LogClosed
from tierlog.hot.producers import Known
from tierlog.hot.snapshot import decode_snapshot, encode_snapshot
from tierlog.hot.sync import Job, JobUnfinished, SyncScheduler
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset


class HeldTasks(LocalTasks):
    """Calls that a thread would make wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__(thread_count=1)
        self.held: list[tuple[object, asyncio.Future[None]]] = []
        self.most = 0

    def in_thread(self, call, *args):  # type: ignore[no-untyped-def]  # a fake of the port
        future = asyncio.get_running_loop().create_future()
        self.held.append((call, future))
        self.most = max(self.most, len(self.held))
        return future

    def let_go(self) -> None:
        """Run the oldest call, as a thread would."""
        call, future = self.held.pop(0)
        try:
            result = call()  # type: ignore[operator]  # as above
        except (OSError, JobUnfinished) as fault:
            future.set_exception(fault)
        else:
            future.set_result(result)


class CountedLog:
    """Counts its jobs."""

    def __init__(self) -> None:
        self.begun = self.ended = self.put_off = 0

    def begin_sync(self) -> Job:
        self.begun += 1
        return CountedJob()

    def end_sync(self, job: Job) -> None:
        self.ended += 1

    def put_off_sync(self, job: Job, unfinished: JobUnfinished) -> None:
        self.put_off += 1


class CountedJob:
    def run(self) -> None:
        pass


async def turns(count: int = 5) -> None:
    """Let the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def tasks() -> Iterator[HeldTasks]:
    tasks = HeldTasks()
    yield tasks
    tasks.close()


def log_with(tasks: HeldTasks, disk: SimDisk, settings: LogSettings = SMALL) -> Log:
    env = env_on(disk)
    env = Env(clock=env.clock, rng=SystemRng(), disk=disk, tasks=tasks, senders=env.senders)
    return Log(LogDirectory(env, "/data", reserve_bytes=0), "p", settings)


# The scheduler alone


async def test_what_one_turn_of_the_loop_asks_for_is_one_job(tasks: HeldTasks) -> None:
    syncs, log = SyncScheduler(tasks, SystemClock()), CountedLog()
    for _ in range(10):
        syncs.request(log)
    assert log.begun == 0
    await turns()
    assert (log.begun, len(tasks.held)) == (1, 1)


async def test_a_log_has_one_job_at_a_time_and_the_next_gathers_the_rest(tasks: HeldTasks) -> None:
    syncs, log = SyncScheduler(tasks, SystemClock()), CountedLog()
    syncs.request(log)
    await turns()
    for _ in range(5):
        syncs.request(log)
        await turns()
    assert (log.begun, log.ended) == (1, 0)
    assert not syncs.is_idle(log)
    tasks.let_go()
    await turns()
    assert (log.begun, log.ended) == (2, 1)
    tasks.let_go()
    await turns()
    assert (log.begun, log.ended) == (2, 2)
    assert syncs.is_idle(log)


async def test_each_job_tells_how_long_it_blocked_and_the_queue_can_be_counted(
    tasks: HeldTasks,
) -> None:
    moments = iter([10.0, 10.25, 20.0, 21.0])
    clock = SystemClock()
    with patch.object(SystemClock, "monotonic", lambda _: next(moments)):
        syncs = SyncScheduler(tasks, clock, jobs_max=1)
        told: list[float] = []
        syncs.on_synced = told.append
        for log in (CountedLog(), CountedLog()):
            syncs.request(log)
        await turns()
        assert (syncs.pending_count, syncs.running_count) == (1, 1)
        for _ in range(2):
            tasks.let_go()
            await turns()
    assert told == [0.25, 1.0]
    assert (syncs.pending_count, syncs.running_count) == (0, 0)


async def test_only_so_many_jobs_run_at_once_first_come_first_synced(tasks: HeldTasks) -> None:
    syncs = SyncScheduler(tasks, SystemClock(), jobs_max=2)
    logs = [CountedLog() for _ in range(5)]
    for log in logs:
        syncs.request(log)
    await turns()
    order = []
    while tasks.held:
        order.append([log.begun for log in logs])
        tasks.let_go()
        await turns()
    assert tasks.most == 2
    assert order == [
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1],
    ]
    assert [log.ended for log in logs] == [1] * 5


async def test_after_a_failed_job_no_other_begins(tasks: HeldTasks) -> None:
    told: list[LogBroken] = []
    syncs = SyncScheduler(tasks, SystemClock(), jobs_max=1)
    syncs.on_broken = told.append
    first, second = CountedLog(), CountedLog()
    syncs.request(first)
    syncs.request(second)
    await turns()
    _, future = tasks.held.pop()
    future.set_exception(OSError("I/O error"))
    await turns()
    syncs.request(second)
    await turns()
    assert (first.ended, second.begun) == (0, 0)
    assert told == [syncs.broken]


async def test_a_job_that_cannot_start_latches(tasks: HeldTasks) -> None:
    told: list[LogBroken] = []
    syncs, log = SyncScheduler(tasks, SystemClock()), CountedLog()
    syncs.on_broken = told.append
    syncs.request(log)
    with patch.object(tasks, "in_thread", side_effect=RuntimeError("shut down")):
        await turns()
    assert told == [syncs.broken]
    assert "shut down" in str(syncs.broken)
    assert syncs.is_idle(log)


async def test_a_log_that_cannot_capture_a_job_latches(tasks: HeldTasks) -> None:
    syncs, log = SyncScheduler(tasks, SystemClock()), CountedLog()
    syncs.request(log)
    with patch.object(log, "begin_sync", side_effect=ValueError("no snapshot")):
        await turns()
    assert syncs.broken is not None
    assert syncs.is_idle(log)


async def test_a_forgotten_log_is_not_synced(tasks: HeldTasks) -> None:
    syncs, log = SyncScheduler(tasks, SystemClock()), CountedLog()
    syncs.request(log)
    syncs.forget(log)
    await turns()
    assert log.begun == 0
    assert syncs.is_idle(log)


# Logs on a scheduler


async def test_a_waiter_hears_once_its_records_are_durable(tasks: HeldTasks) -> None:
    log = log_with(tasks, SimDisk())
    append_values(log, b"x")
    first = log.wait_visible(log.log_end)
    await turns()
    append_values(log, b"y")
    second = log.wait_visible(log.log_end)
    tasks.let_go()
    await turns()
    assert first.done()
    assert not second.done()
    assert log.visible_end == 1
    tasks.let_go()
    await second
    assert log.wait_visible(Offset(1)).done()


async def test_whoever_waits_for_a_duplicate_waits_no_longer_than_for_its_original(
    tasks: HeldTasks,
) -> None:
    log = log_with(tasks, SimDisk())
    data = batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0)
    append(log, bytearray(data))
    await turns()
    append_values(log, b"y")
    later = log.wait_visible(log.log_end)
    again = append(log, bytearray(data))
    assert again.is_duplicate
    duplicate = log.wait_visible(Offset(again.last_offset + 1))
    tasks.let_go()
    await turns()
    assert duplicate.done()
    assert not later.done()
    tasks.let_go()
    await later


async def test_a_long_poll_waits_for_what_is_not_appended_yet(tasks: HeldTasks) -> None:
    log = log_with(tasks, SimDisk())
    poll, beyond = log.wait_visible(Offset(2)), log.wait_visible(Offset(3))
    append_values(log, b"x")
    await turns()
    tasks.let_go()
    await turns()
    append_values(log, b"y")
    assert not poll.done()
    await turns()
    tasks.let_go()
    await poll
    assert not beyond.done()
    closing = asyncio.ensure_future(log.close())
    await turns()
    tasks.let_go()
    await closing
    with pytest.raises(LogClosed):
        await beyond


async def test_a_long_poll_on_a_log_that_shows_at_once_is_woken_by_the_append(
    tasks: HeldTasks,
) -> None:
    log = log_with(tasks, SimDisk(), LogSettings(flush_messages=100))
    poll = log.wait_visible(Offset(2))
    append_values(log, b"x")
    assert not poll.done()
    append_values(log, b"y")
    assert poll.done()
    assert len(tasks.held) == 0


async def test_waiters_who_gave_up_are_not_kept(tasks: HeldTasks) -> None:
    log = log_with(tasks, SimDisk())
    append_values(log, b"x")
    for _ in range(1000):
        log.wait_visible(Offset(1)).cancel()
    assert len(log._waiters) < 100


async def test_a_cancelled_waiter_does_no_harm(tasks: HeldTasks) -> None:
    log = log_with(tasks, SimDisk())
    append_values(log, b"x")
    gone, stays = log.wait_visible(Offset(1)), log.wait_visible(Offset(1))
    settler = log.settle()
    gone.cancel()
    settler.cancel()
    await turns()
    tasks.let_go()
    await stays
    assert log.visible_end == 1


async def test_waiters_and_settlers_fail_when_the_directory_breaks(tasks: HeldTasks) -> None:
    disk = SimDisk()
    log = log_with(tasks, disk)
    append_values(log, b"x")
    waiter, cancelled, settler = (
        log.wait_visible(Offset(1)),
        log.wait_visible(Offset(1)),
        log.settle(),
    )
    cancelled.cancel()
    await turns()
    late = log.settle()
    disk.fail_fsync()
    tasks.let_go()
    for future in (waiter, settler, late):
        with pytest.raises(LogBroken):
            await future
    with pytest.raises(LogBroken):
        await log.settle()
    with pytest.raises(LogBroken):
        await log.wait_visible(Offset(1))
    assert log.visible_end == 0
    await log.close()


async def test_a_broken_log_does_not_pin_the_page_caches_lie(tasks: HeldTasks) -> None:
    """close() after a failed fsync writes nothing: the restart reads what is there."""
    disk = SimDisk()
    log = log_with(tasks, disk)
    append_values(log, b"x")
    await turns()
    disk.fail_fsync()
    tasks.let_go()
    await turns()
    before = disk.op_count
    await log.close()
    assert disk.op_count == before


async def test_waiters_and_close_fail_when_the_threads_are_gone(tasks: HeldTasks) -> None:
    log = log_with(tasks, SimDisk())
    append_values(log, b"x")
    waiter = log.wait_visible(Offset(1))
    with patch.object(tasks, "in_thread", side_effect=RuntimeError("shut down")):
        with pytest.raises(LogBroken):
            await asyncio.wait_for(waiter, 10)
        await asyncio.wait_for(log.close(), 10)


async def test_producers_are_encoded_by_the_job_and_as_they_were_when_it_began(
    tasks: HeldTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, encoded = SimDisk(), []

    def noting(producers: Iterable[Known]) -> bytes:
        encoded.append(sorted(one for one, _ in producers))
        return encode_snapshot(producers)

    for module in ("job", "log", "syncing"):
        monkeypatch.setattr(f"tierlog.hot.{module}.encode_snapshot", noting, raising=False)
    log = log_with(tasks, disk)
    now_ms = SystemClock().now_ms()
    append(log, batch(b"x", producer_id=1, producer_epoch=0, base_sequence=0), now_ms=now_ms)
    log.roll()
    await turns()
    append(log, batch(b"y", producer_id=2, producer_epoch=0, base_sequence=0), now_ms=now_ms)
    assert encoded == [], "nothing of the kind happens on the loop"
    tasks.let_go()
    await turns()
    assert encoded == [[1]]
    stored = decode_snapshot(smallfile.read_all(disk, f"/data/p/{1:020d}.snapshot"))
    assert stored is not None
    assert [one for one, _ in stored] == [1]


async def test_settling_waits_for_trims_too(tasks: HeldTasks) -> None:
    disk = SimDisk()
    log = log_with(tasks, disk)
    append_values(log, b"x")
    log.roll()
    append_values(log, b"y")
    await turns()
    tasks.let_go()
    await turns()
    log.trim(Offset(1))
    settled = log.settle()
    await turns()
    assert not settled.done()
    tasks.let_go()
    await settled
    assert not disk.exists("/data/p/00000000000000000000.log")


async def test_closing_waits_for_the_job_under_way_and_wakes_who_still_waits(
    tasks: HeldTasks,
) -> None:
    disk = SimDisk()
    log = log_with(tasks, disk)
    append_values(log, b"x")
    await turns()
    append_values(log, b"y")
    waiter = log.wait_visible(Offset(2))
    closing = asyncio.ensure_future(log.close())
    again = asyncio.ensure_future(log.close())
    await turns()
    with pytest.raises(LogClosed):
        append_values(log, b"z")
    with pytest.raises(LogClosed):
        await log.settle()
    assert not waiter.done()
    assert not closing.done()
    while not closing.done():
        tasks.let_go()
        await turns()
    await closing
    await again
    await waiter
    assert tasks.most == 1
    log._directory.close()
    disk.kill()
    log, _ = open_log(disk)
    assert (log.scanned_bytes, read_values(log)) == (0, {0: b"x", 1: b"y"})


async def test_a_close_that_was_cancelled_is_finished_by_the_next(tasks: HeldTasks) -> None:
    disk = SimDisk()
    log = log_with(tasks, disk)
    append_values(log, b"x")
    closing = asyncio.ensure_future(log.close())
    await turns()
    closing.cancel()
    await turns()
    again = asyncio.ensure_future(log.close())
    await turns()
    assert len(tasks.held) == 1
    while not again.done():
        tasks.let_go()
        await turns()
    await again
    assert tasks.most == 1
    assert len(log._directory.pool) == 0
    log._directory.close()
    disk.kill()
    log, _ = open_log(disk)
    assert (log.scanned_bytes, read_values(log)) == (0, {0: b"x"})


async def test_a_trim_that_waits_for_a_roll_is_done_when_the_log_is_closed(
    tasks: HeldTasks,
) -> None:
    disk = SimDisk()
    log = log_with(tasks, disk, LogSettings(flush_messages=100))
    append_values(log, b"x")
    log.roll()
    await turns()
    log.trim(Offset(1))
    closing = asyncio.ensure_future(log.close())
    await turns()
    while not closing.done():
        tasks.let_go()
        await turns()
    await closing
    assert not disk.exists("/data/p/00000000000000000000.log")
    checkpoint = load_checkpoint(disk, "/data/p")
    assert checkpoint is not None
    assert (checkpoint.clean, len(checkpoint.segments)) == (True, 1)


async def test_a_directory_that_breaks_while_a_log_closes_fails_the_close(tasks: HeldTasks) -> None:
    disk = SimDisk()
    log = log_with(tasks, disk)
    append_values(log, b"x")
    await turns()
    closing = asyncio.ensure_future(log.close())
    await turns()
    disk.fail_fsync()
    tasks.let_go()
    with pytest.raises(LogBroken):
        await closing
    assert len(tasks.held) == 0


async def test_a_last_job_that_fails_fails_the_close(tasks: HeldTasks) -> None:
    disk = SimDisk()
    log = log_with(tasks, disk, LogSettings(flush_messages=3))
    append_values(log, b"x")
    closing = asyncio.ensure_future(log.close())
    await turns()
    disk.fail_fsync()
    tasks.let_go()
    with pytest.raises(LogBroken):
        await closing
    assert log._directory.broken is not None


async def test_a_last_job_that_cannot_start_fails_the_close(tasks: HeldTasks) -> None:
    log = log_with(tasks, SimDisk(), LogSettings(flush_messages=3))
    append_values(log, b"x")
    with (
        patch.object(tasks, "in_thread", side_effect=RuntimeError("shut down")),
        pytest.raises(LogBroken, match="shut down"),
    ):
        await log.close()
    assert log._directory.broken is not None


async def test_an_idle_log_closes_without_touching_the_disk(tasks: HeldTasks) -> None:
    disk = SimDisk()
    first = log_with(tasks, disk)
    before = disk.op_count
    await first.close()
    assert disk.op_count == before
    assert len(tasks.held) == 0


async def test_an_append_that_nobody_synced_is_synced_by_closing(tasks: HeldTasks) -> None:
    log = log_with(tasks, SimDisk(), LogSettings(flush_messages=3))
    append_values(log, b"x")
    closing = asyncio.ensure_future(log.close())
    await turns()
    tasks.let_go()
    await closing
    assert log.durable_end == 1


async def test_kafkas_habit_shows_records_before_they_are_synced(tasks: HeldTasks) -> None:
    log = log_with(tasks, SimDisk(), LogSettings(flush_messages=3))
    append_values(log, b"x")
    await turns()
    assert log.wait_visible(Offset(1)).done()
    assert (len(tasks.held), log.visible_end, log.durable_end) == (0, 1, 0)
    append_values(log, b"y", b"z")
    await turns()
    assert len(tasks.held) == 1


# On this machine


async def test_many_writers_on_a_real_disk_with_real_threads(tmp_path: Path) -> None:
    env = local_env()
    directory = LogDirectory(env, str(tmp_path / "data"), reserve_bytes=0)
    logs = [Log(directory, f"p{number}", SMALL) for number in range(6)]
    acked: dict[str, dict[int, bytes]] = {log.path: {} for log in logs}

    async def write(log: Log, writer: int) -> None:
        for number in range(15):
            value = b"%d-%d-" % (writer, number) + b"v" * 150
            placed = append_values(log, value)
            await log.wait_visible(Offset(placed.last_offset + 1))
            assert log.durable_end > placed.last_offset
            acked[log.path][placed.base_offset] = value

    await asyncio.gather(*(write(log, writer) for log in logs for writer in range(3)))
    for log in logs:
        assert len(log.segments) > 1
        await log.close()
    directory.close()
    directory = LogDirectory(env, str(tmp_path / "data"), reserve_bytes=0)
    for number in range(6):
        log = Log(directory, f"p{number}", SMALL)
        assert log.scanned_bytes == 0
        assert read_values(log) == acked[log.path]
        log.close_now()
    directory.close()
    assert isinstance(env.tasks, LocalTasks)
    env.tasks.close()
