"""A log's side of the sync scheduler: what is pending, and what is durable once a job is done.

Captured on the loop (`begin_sync`), made durable in a thread (`SyncJob.run`), noted on the loop
(`end_sync`). What a job could not do goes back to what is pending (`put_off_sync`). The settings
are changed here, since most of them say when something becomes durable or visible.
"""

import asyncio
from dataclasses import replace

from tierlog.env import File
from tierlog.hot.base import LogState
from tierlog.hot.checkpoint import Checkpoint
from tierlog.hot.job import Pending, Swap, SyncJob
from tierlog.hot.settings import LogSettings
from tierlog.hot.sync import Job, JobUnfinished
from tierlog.hot.waiters import reject, resolve
from tierlog.types import Offset


class SyncedLog(LogState):
    __slots__ = ()

    def _request_sync(self) -> None:
        self._sync_requested = True
        self._directory.syncs.request(self)

    def apply(self, settings: LogSettings) -> None:
        """Go on with other settings: sizes and times from the next append or roll on.

        What is visible stays visible: at `flush.messages=1` from now on, new records are shown
        once they are durable. Offsets that once had gaps have them for ever: `contiguous` may be
        given up, not taken back.
        """
        self._require_open()
        self._shown_end = self.visible_end
        contiguous = self.settings.contiguous and settings.contiguous
        self._adopt(replace(settings, contiguous=contiguous))
        self._active.apply(self.settings)
        if self.visible_end > self._shown_end:
            self._show()
        if not self._sync_requested and self._messages_since_sync >= self._flush_messages:
            self._request_sync()

    def flush_if_due(self, now_ms: int) -> None:
        """Ask for a sync if an append has waited for `flush.ms`, or the clock went back."""
        if self._sync_requested or not self._messages_since_sync or self._refusal is not None:
            return
        if not 0 <= now_ms - self._first_unsynced_ms < self.settings.flush_ms:
            self._request_sync()

    def settle(self) -> asyncio.Future[None]:
        """Done once everything that is pending now is on the disk, trims included.

        Fails with `DiskFull` or `TooManyFiles` when only the appends are; the rest stays pending
        and goes with the next job. Whoever settles again tries again.
        """
        if self._refusal is None:
            return self._settle()
        future = asyncio.get_running_loop().create_future()
        future.set_exception(self._refused())
        return future

    def _settle(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._pending.settlers.append(future)
        self._request_sync()
        return future

    def begin_sync(self, *, clean: bool = False) -> SyncJob:
        clean = clean or self._closing
        if clean:
            self._active.pin_reserved()
        pending, self._pending = self._pending, Pending()
        self._jobs.append(pending)
        self._messages_since_sync = 0
        self._sync_requested = False
        due = clean or pending.checkpoint_due or bool(pending.sealed)
        if due or self._bytes_since_checkpoint >= self.settings.checkpoint_bytes:
            self._capture_checkpoint(pending)
            due = True
        indexes = [(one.base_offset, content) for one, _, content in pending.sealed]
        if due:
            indexes.append((self._active.base_offset, self._active.indexes().to_bytes()))
        return SyncJob(
            disk=self._disk,
            directory=self.path,
            end=self.log_end,
            files=(*(file for _, file, _ in pending.sealed), *self._unsynced()),
            sizes=(
                *((file, one.size) for one, file, _ in pending.sealed),
                *((file, self._active.size) for file in self._unsynced() if clean),
            ),
            indexes=tuple(indexes),
            snapshots=tuple(dict(pending.snapshots).items()),
            names_changed=pending.names_changed,
            checkpoint=self._checkpoint(clean=clean, swap=pending.swap) if due else None,
            removals=tuple(pending.removals),
        )

    def _unsynced(self) -> tuple[File, ...]:
        file = self._active.unsynced
        return () if file is None else (file,)

    def _capture_checkpoint(self, pending: Pending) -> None:
        self._bytes_since_checkpoint = 0
        now_ms = self._directory.env.clock.now_ms()
        self.producers.expire(now_ms - self.settings.producer_expiration_ms)
        pending.snapshots.append((self.log_end, self.producers.copy()))

    def _checkpoint(self, *, clean: bool, swap: Swap | None = None) -> Checkpoint:
        segments = list(self.segments) if swap is None else swap.applied_to(self.segments)
        return Checkpoint(
            boot=self._boot,
            clean=clean,
            log_start=self.log_start,
            trimmed_to=self.trimmed_to,
            durable_end=self.log_end,
            segments=tuple(segment.numbers for segment in segments),
            epochs=self.epochs.entries,
            cleaned_to=self.cleaned_to,
            compacted=self.compacted or swap is not None,
            replaced=() if swap is None else swap.bases,
        )

    def end_sync(self, job: Job) -> None:
        assert isinstance(job, SyncJob)
        done = self._jobs.pop(0)
        for segment, _, _ in done.sealed:
            self._pool.unpin(segment.path)
            segment.release_indexes()
        self._note_durable(job.end)
        if job.checkpoint is not None:
            self._names_replaced = bool(job.checkpoint.replaced)
        if done.swap is not None:
            self._take_over(done.swap)
        self._closed_clean = job.checkpoint is not None and job.checkpoint.clean
        self._clean_end = job.end
        for future in done.settlers:
            resolve(future)
        if (done.sealed or done.swap) and self._directory.broken is None:
            self._drop_below_start()  # A trim had to leave them to their job.

    def put_off_sync(self, job: Job, unfinished: JobUnfinished) -> None:
        assert isinstance(job, SyncJob)
        work = self._jobs.pop(0)
        for future in work.settlers:
            reject(future, unfinished.cause)
        work.settlers.clear()
        work.checkpoint_due = work.checkpoint_due or job.checkpoint is not None
        self._pending = work.followed_by(self._pending)
        if unfinished.is_durable:
            self._note_durable(job.end)

    def _note_durable(self, end: Offset) -> None:
        if self._active.next_offset == end:
            self._active.release()  # Nothing came after the job was captured.
        if end > self.durable_end:
            self.durable_end = end
            self._show()

    def _take_over(self, swap: Swap) -> None:
        """The cleaned segment is in its place. Until now the old files were pinned: readers had
        them in hand, whatever their names were."""
        self.compacted = True
        self.segments.swap(swap.old, swap.new)
        for segment in swap.old:
            self._pool.forget(segment.path)

    def _unsynced_bases(self) -> set[Offset]:
        """Sealed segments whose sync job is not done yet, those about to be replaced included."""
        works = (*self._jobs, self._pending)
        swaps = [work.swap for work in works if work.swap is not None]
        return {one.base_offset for work in works for one, _, _ in work.sealed}.union(
            *(swap.bases for swap in swaps)
        )

    def _drop_below_start(self) -> None:
        unsynced = self._unsynced_bases()
        for segment in list(self.segments)[:-1]:
            if segment.next_offset > self.log_start or segment.base_offset in unsynced:
                break
            self.segments.remove(segment)
            self._pool.forget(segment.path)
            self._pending.removals.append(segment.base_offset)
            self._pending.checkpoint_due = True
            self._request_sync()
