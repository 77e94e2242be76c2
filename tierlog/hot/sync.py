"""Making appends durable: one scheduler per log directory.

A log asks for a sync after an append; the scheduler takes what is pending, a few logs at a time,
and runs each log's job in a thread. There is no timer: an idle disk syncs at once, a busy one
gathers what arrives meanwhile into the next job. One job per log is under way at a time.

After a failed job the page cache can no longer be believed (fsyncgate): the scheduler latches
broken and starts nothing again. A restart reads what is really there.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tierlog.env import Tasks
from tierlog.hot.errors import LogBroken


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


class Syncs(Protocol):
    """Who runs the jobs."""

    broken: LogBroken | None
    on_broken: Callable[[LogBroken], None]
    """Told once, by whoever latches."""

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

    def __init__(self, tasks: Tasks, *, jobs_max: int = 4) -> None:
        super().__init__()
        self._tasks = tasks
        self._jobs_max = jobs_max
        self._running: dict[Syncable, Job] = {}
        self._woken = False

    def request(self, log: Syncable) -> None:
        self._pending[log] = None
        if not self._woken and log not in self._running:
            self._wake()

    def is_idle(self, log: Syncable) -> bool:
        return log not in self._pending and log not in self._running

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
        job = self._running[log] = log.begin_sync()
        self._tasks.in_thread(job.run).add_done_callback(partial(self._done, log, job))

    def _done(self, log: Syncable, job: Job, outcome: asyncio.Future[None]) -> None:
        del self._running[log]
        fault = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        if fault is not None:
            self.latch(fault)
            return
        log.end_sync(job)
        self._start_jobs()


class ManualSyncs(_Latch):
    """For tools and tests without a loop: whoever holds it says when the disk is synced."""

    def request(self, log: Syncable) -> None:
        self._pending[log] = None

    def is_idle(self, log: Syncable) -> bool:
        return log not in self._pending

    def run_all(self) -> None:
        while self._pending and self.broken is None:
            log = next(iter(self._pending))
            del self._pending[log]
            job = log.begin_sync()
            try:
                job.run()
            except OSError as fault:
                raise self.latch(fault) from fault
            log.end_sync(job)
