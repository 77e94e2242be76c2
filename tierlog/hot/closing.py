"""How a log ends: closed in order, deleted, or failed with its directory."""

import asyncio
from contextlib import suppress

from tierlog.hot.errors import LogBroken, LogError
from tierlog.hot.shortening import ShortenedLog
from tierlog.hot.sync import JobUnfinished
from tierlog.hot.waiters import reject


class ClosingLog(ShortenedLog):
    __slots__ = ()

    def fail(self, broken: LogBroken) -> None:
        """The directory broke: nobody gets an answer that the disk does not back."""
        self._refusal = str(broken)
        self._waiters.fail(self._refused())
        for work in [*self._jobs, self._pending]:
            for future in work.settlers:
                reject(future, self._refused())
        self._watchers.notify()

    async def close(self) -> None:
        """Sync, write a clean checkpoint, let go of the files. Nothing more the second time.

        Whoever waits for what the last sync covers still hears of it. Cancelled half way, or
        refused by a full disk (`DiskFull`), it is finished by closing again. In a broken
        directory nothing is written any more. `LogBroken` if it breaks meanwhile.
        """
        if self._begin_close():
            return
        directory = self._directory
        try:
            while not self._ended and directory.broken is None and not self._is_clean():
                await self._settle()
        finally:
            if directory.broken is not None:
                self._end()
        self._end()

    async def abandon(self) -> None:
        """Let go of the files without a last sync, once the job under way has ended.

        For a log that is about to be deleted: everything is refused from now on.
        """
        if self._refusal is None:
            self._refusal = "the log is deleted"
        syncs = self._directory.syncs
        syncs.forget(self)
        while self._jobs and syncs.broken is None:
            ended = asyncio.get_running_loop().create_future()
            self._jobs[-1].settlers.append(ended)
            with suppress(LogError):
                await ended
            syncs.forget(self)
        for future in self._pending.settlers:
            reject(future, self._refused())
        self._end()

    def _is_clean(self) -> bool:
        """Whether the disk holds a clean checkpoint of just this: an idle log closes for free."""
        return (
            self._closed_clean
            and self._clean_end == self.log_end
            and self._directory.syncs.is_idle(self)
        )

    def close_now(self) -> None:
        """The same, blocking, for tools without a loop; everything pending goes along."""
        if self._begin_close():
            return
        if self._directory.broken is None:
            self._run_last_job()
            if self._pending.removals:  # A trim had to leave them to the job of their roll.
                self._run_last_job()
        self._end()

    def _run_last_job(self) -> None:
        job = self.begin_sync()
        try:
            job.run()
        except JobUnfinished as unfinished:
            self.put_off_sync(job, unfinished)
            raise unfinished.cause from unfinished
        except Exception as fault:
            broken = self._directory.syncs.latch(fault)
            self._end()
            raise broken from fault
        self.end_sync(job)

    def _begin_close(self) -> bool:
        """Refuse what comes now; jobs from here on are the last ones. True if it is all done."""
        self._closing = True
        if self._refusal is None:
            self._refusal = "the log is closed"
        return self._ended

    def _end(self) -> None:
        """Let go of everything. Not of the files, where a job may still be under way on them."""
        if self._ended:
            return
        self._ended = True
        self._waiters.fail(self._refused())
        self._watchers.notify()
        self._directory.detach(self)
        if self._directory.broken is None:
            for segment in self.segments:
                self._pool.forget(segment.path)
