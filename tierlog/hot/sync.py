"""Making appends durable: one scheduler per log directory.

A log asks for a sync after an append; the scheduler takes what is pending, a few logs at a time,
and runs each log's job in a thread. There is no timer: an idle disk syncs at once, a busy one
gathers what arrives meanwhile into the next job. One job per log is under way at a time.

After a failed job the page cache can no longer be believed (fsyncgate): the scheduler latches
broken and starts nothing again. A restart reads what is really there.

A full disk, or too many open files, is not a failure but `JobUnfinished`: what was captured goes
back to the log and is tried again after a while: soon if its batches are not durable yet, later if
only the rest is missing, unless the log has another job before.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tierlog.env import Clock, Tasks
from tierlog.hot.errors import LogBroken, LogError

RETRY_SECONDS = 0.25
"""Until a job that could not make its batches durable is tried again: long enough for other jobs
to close their files, short for whoever waits."""

POSTPONED_SECONDS = 5.0
"""Until the rest of a job whose batches are durable is tried again: nobody waits for it, and space
does not come back in a moment."""


class JobUnfinished(Exception):
    """Nothing is broken, but some of the job has to be done again."""

    def __init__(self, cause: LogError, *, is_durable: bool) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.is_durable = is_durable
        """Whether the batches are durable, so that only the bookkeeping is missing."""


class Job(Protocol):
    def run(self) -> None:
        """Block until what the job speaks of is durable. Called in a thread."""
        ...


class Syncable(Protocol):
    def begin_sync(self) -> Job:
        """Capture everything pending."""
        ...

    def end_sync(self, job: Job) -> None:
        """The job is done: what it captured is durable."""
        ...

    def put_off_sync(self, job: Job, unfinished: JobUnfinished) -> None:
        """Take back what the job captured: a later one does it."""
        ...


class Syncs(Protocol):
    """Who runs the jobs."""

    broken: LogBroken | None
    on_broken: Callable[[LogBroken], None]
    """Told once, by whoever latches."""
    on_synced: Callable[[float], None]
    """Told after each finished job for how many seconds it blocked."""

    @property
    def pending_count(self) -> int:
        """Logs that wait for their job."""
        ...

    @property
    def running_count(self) -> int:
        """Jobs under way."""
        ...

    def request(self, log: Syncable) -> None:
        """Something is pending on the log."""
        ...

    def is_idle(self, log: Syncable) -> bool:
        """Nothing pending, nothing under way."""
        ...

    def forget(self, log: Syncable) -> None:
        """The log is closed: what it asked for is done, or will not be."""
        ...

    def latch(self, fault: BaseException) -> LogBroken:
        """A write failed: refuse everything from now on."""
        ...


class _Latch:
    def __init__(self) -> None:
        # Dictionaries as ordered sets: first come, first synced.
        self._pending: dict[Syncable, None] = {}
        self.broken: LogBroken | None = None
        self.on_broken: Callable[[LogBroken], None] = lambda _: None
        self.on_synced: Callable[[float], None] = lambda _: None

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    @property
    def running_count(self) -> int:
        return 0

    def latch(self, fault: BaseException) -> LogBroken:
        if self.broken is None:
            self.broken = LogBroken(
                f"writing to the log directory failed ({fault}); nothing is accepted until a "
                "restart has read back what is on the disk"
            )
            self.on_broken(self.broken)
        return self.broken

    def forget(self, log: Syncable) -> None:
        self._pending.pop(log, None)


class SyncScheduler(_Latch):
    """Runs jobs in threads and hears of them on the running loop."""

    def __init__(self, tasks: Tasks, clock: Clock, *, jobs_max: int = 4) -> None:
        super().__init__()
        self._tasks = tasks
        self._clock = clock
        self._jobs_max = jobs_max
        self._running: dict[Syncable, Job] = {}
        self._resting: dict[Syncable, None] = {}
        """Logs whose job waits for another try."""
        self._postponed: dict[Syncable, asyncio.TimerHandle] = {}
        """Logs that miss nothing but bookkeeping: idle, as far as anybody is concerned."""
        self._woken = False

    @property
    def pending_count(self) -> int:
        return len(self._pending) + len(self._resting)

    @property
    def running_count(self) -> int:
        return len(self._running)

    def request(self, log: Syncable) -> None:
        self._pending[log] = None
        if not self._woken and log not in self._running:
            self._wake()

    def is_idle(self, log: Syncable) -> bool:
        return not any(log in state for state in (self._pending, self._running, self._resting))

    def _wake(self) -> None:
        # Not at once: everything that this turn of the loop still appends joins the same job.
        self._woken = True
        asyncio.get_running_loop().call_soon(self._start_jobs)

    def _start_jobs(self) -> None:
        self._woken = False
        for log in list(self._pending):
            if len(self._running) >= self._jobs_max or self.broken is not None:
                return
            if log not in self._running:
                del self._pending[log]
                self._start(log)

    def _start(self, log: Syncable) -> None:
        try:
            job = log.begin_sync()
            outcome = self._tasks.in_thread(partial(self._run, job))
        except Exception as fault:  # noqa: BLE001 - it reaches everybody through the latch.
            self.latch(fault)  # Nobody may wait for a job that never runs.
            return
        self._running[log] = job
        self._resting.pop(log, None)
        self._cancel_postponed(log)
        outcome.add_done_callback(partial(self._done, log, job))

    def _run(self, job: Job) -> float:
        """In a thread: the time that it takes is the disk's, not that of a busy loop."""
        began = self._clock.monotonic()
        job.run()
        return self._clock.monotonic() - began

    def _done(self, log: Syncable, job: Job, outcome: asyncio.Future[float]) -> None:
        del self._running[log]
        fault = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        if isinstance(fault, JobUnfinished):
            self._put_off(log, job, fault)
        elif fault is not None:
            self.latch(fault)
            return
        else:
            self.on_synced(outcome.result())
            log.end_sync(job)
        self._start_jobs()

    def _put_off(self, log: Syncable, job: Job, unfinished: JobUnfinished) -> None:
        log.put_off_sync(job, unfinished)
        loop = asyncio.get_running_loop()
        if unfinished.is_durable:
            self._postponed[log] = loop.call_later(POSTPONED_SECONDS, self.request, log)
        else:
            self._resting[log] = None
            loop.call_later(RETRY_SECONDS, self._retry, log)

    def _retry(self, log: Syncable) -> None:
        if log in self._resting:
            del self._resting[log]
            self.request(log)

    def forget(self, log: Syncable) -> None:
        super().forget(log)
        self._resting.pop(log, None)
        self._cancel_postponed(log)

    def _cancel_postponed(self, log: Syncable) -> None:
        timer = self._postponed.pop(log, None)
        if timer is not None:
            timer.cancel()


class ManualSyncs(_Latch):
    """For tools and tests without a loop: whoever holds it says when the disk is synced."""

    def request(self, log: Syncable) -> None:
        self._pending[log] = None

    def is_idle(self, log: Syncable) -> bool:
        return log not in self._pending

    def run_all(self) -> None:
        """Run what is pending. `DiskFull` or `TooManyFiles` if some of it has to be done again."""
        while self._pending and self.broken is None:
            log = next(iter(self._pending))
            del self._pending[log]
            job = log.begin_sync()
            try:
                job.run()
            except JobUnfinished as unfinished:
                if not unfinished.is_durable:
                    self._pending[log] = None
                log.put_off_sync(job, unfinished)
                raise unfinished.cause from unfinished
            except Exception as fault:
                raise self.latch(fault) from fault
            log.end_sync(job)
