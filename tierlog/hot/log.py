"""The local log of one partition.

Appends go to the active segment, a sync job makes them durable, readers see what is visible. All
methods run on the loop's thread; only `SyncJob.run` blocks on the disk, in a thread. Opening,
`truncate` and `close_now` block too: whoever calls them knows.

What always holds, all ends exclusive:
- `log_start <= visible_end <= log_end` and `durable_end <= log_end`; none but `truncate` moves an
  end back. `visible_end` is `durable_end` at `flush.messages=1` (or what was visible before that
  was set, until it is durable), else `log_end`.
- Segments follow each other by base offset. Between two of them there may be a gap, left by a
  recovery; inside one, offsets are contiguous (compacted topics aside).
- After a write or fsync failed nothing is accepted any more (`LogBroken`).
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tierlog.env import File
from tierlog.hot.checkpoint import Checkpoint
from tierlog.hot.cutting import Border, cut_back
from tierlog.hot.errors import LogBroken, LogClosed, LogError, OffsetOutOfRange, ReadFailed
from tierlog.hot.job import Pending, SyncJob
from tierlog.hot.opening import Opened
from tierlog.hot.producers import ProducedBatch
from tierlog.hot.segment import Segment, empty_numbers
from tierlog.hot.segments import SegmentList
from tierlog.hot.settings import LogSettings
from tierlog.hot.snapshot import encode_snapshot
from tierlog.hot.store import refused
from tierlog.hot.sync import Job, JobUnfinished
from tierlog.hot.waiters import Waiters, reject, resolve
from tierlog.hot.watchers import Watcher, Watchers
from tierlog.records.batch import patch_log_append_time, patch_offset
from tierlog.records.header import BatchHeader
from tierlog.types import NO_TIMESTAMP, Bytes, LeaderEpoch, Offset, TimestampMs, WritableBytes

if TYPE_CHECKING:
    from tierlog.hot.directory import LogDirectory

FIRST_OFFSET = Offset(0)


class Appended(NamedTuple):
    """Where a batch stands. A duplicate names the place of its first copy."""

    base_offset: Offset
    last_offset: Offset
    timestamp: TimestampMs
    """Log append time, or -1 where the producer's own timestamps stand."""
    is_duplicate: bool


class Log:
    __slots__ = (
        "_active",
        "_boot",
        "_bytes_since_checkpoint",
        "_checkpoint_bytes",
        "_closed_clean",
        "_closing",
        "_directory",
        "_disk",
        "_ended",
        "_flush_messages",
        "_jobs",
        "_messages_since_sync",
        "_pending",
        "_pool",
        "_refusal",
        "_shown_end",
        "_shows_at_once",
        "_stamps",
        "_sync_requested",
        "_waiters",
        "_watchers",
        "durable_end",
        "epochs",
        "gaps",
        "is_deleted",
        "log_end",
        "log_start",
        "path",
        "producers",
        "scanned_bytes",
        "segments",
        "settings",
    )

    def __init__(
        self,
        directory: "LogDirectory",
        name: str,
        settings: LogSettings,
        *,
        start: Offset = FIRST_OFFSET,
        opened: Opened | None = None,
    ) -> None:
        """Open the log in `directory`/`name`, or begin one at offset `start`.

        Blocks, unless the partition was `opened` in a thread: `LogDirectory.open_log` does that.
        """
        self.path = f"{directory.path}/{name}"
        self._adopt(settings)
        self._directory = directory
        self._disk = directory.disk
        self._pool = directory.pool
        self._boot = directory.disk.boot_id()
        self._waiters = Waiters()
        self._watchers = Watchers()
        self._jobs: list[Pending] = []
        self._refusal: str | None = None
        self._closing = False
        self._closed_clean = False
        self._ended = False
        self.is_deleted = False
        if directory.broken is not None:
            raise directory.broken
        directory.attach(self)
        try:
            self._begin(opened or directory.open_now(self.path, settings, start=start))
        except BaseException:
            directory.detach(self)
            raise

    def _begin(self, opened: Opened) -> None:
        """Go on from what was found on the disk."""
        directory = self._directory
        recovered = opened.recovered
        self.scanned_bytes = recovered.scanned_bytes
        self.gaps = recovered.gaps
        self.log_start = recovered.log_start
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        self.segments = SegmentList(self.path, opened.damage)
        for segment in recovered.segments:
            segment.move_to(self._pool)
            trusted = recovered.trusted_from.get(segment.base_offset, segment.size)
            self.segments.add(segment, trusted_from=trusted)
        self._active = recovered.segments[-1]
        self._active.activate(space=directory)
        if self._active.size and self._active.first_append_ms < 0:
            self._active.first_append_ms = directory.env.clock.now_ms()
        self.log_end = self.durable_end = self._shown_end = self._active.next_offset
        self._pending = Pending()
        self._bytes_since_checkpoint = 0
        self._messages_since_sync = 0
        self._sync_requested = False

    @property
    def visible_end(self) -> Offset:
        """What consumers may see of this replica."""
        if self._shows_at_once:
            return self.log_end
        return max(self._shown_end, self.durable_end)

    # Settings

    def _adopt(self, settings: LogSettings) -> None:
        self.settings = settings
        self._stamps = settings.log_append_time
        self._flush_messages = settings.flush_messages
        self._shows_at_once = settings.flush_messages != 1
        self._checkpoint_bytes = settings.checkpoint_bytes

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

    @property
    def size_bytes(self) -> int:
        """Bytes of batches on the disk; indexes and reserved blocks do not count."""
        return sum(segment.size for segment in self.segments)

    # Appending

    def append(
        self, batch: WritableBytes, header: BatchHeader, *, leader_epoch: LeaderEpoch, now_ms: int
    ) -> Appended:
        """Give a checked batch its offsets and write it.

        `header` is what `validate_produced` returned; the batch is patched in place. A batch that
        an idempotent producer sends again is not written again.
        """
        if self._refusal is not None:
            raise self._refused()
        _, _, _, _, _, _, delta, _, timestamp, producer_id, _, _, record_count = header
        has_producer = producer_id >= 0
        if has_producer and (first := self.producers.check(header)) is not None:
            return self._duplicate_of(first)
        size = len(batch)
        base_offset = self.log_end
        last_offset = Offset(base_offset + delta)
        if not self._active.has_room(size, last_offset):
            self.roll()
        stamp = NO_TIMESTAMP
        if self._stamps:
            timestamp = stamp = TimestampMs(now_ms)
            patch_log_append_time(batch, timestamp_ms=now_ms)
        patch_offset(batch, base_offset, leader_epoch)
        try:
            self._active.append(batch, size, last_offset, timestamp, now_ms)
        except OSError as fault:
            raise self._directory.syncs.latch(fault) from fault
        self.log_end = Offset(last_offset + 1)
        if self._shows_at_once and (self._waiters.waiting or self._watchers.watching):
            self._show()
        if leader_epoch > self.epochs.latest:
            self.epochs.note(leader_epoch, base_offset)
        if has_producer:
            self.producers.note(header, base_offset, timestamp, now_ms=now_ms)
        self._bytes_since_checkpoint += size
        self._messages_since_sync += record_count
        if not self._sync_requested and (
            self._messages_since_sync >= self._flush_messages
            or self._bytes_since_checkpoint >= self._checkpoint_bytes
            or self._pool.is_crowded
        ):
            self._request_sync()
        return tuple.__new__(Appended, (base_offset, last_offset, stamp, False))

    def _request_sync(self) -> None:
        self._sync_requested = True
        self._directory.syncs.request(self)

    def _duplicate_of(self, first: ProducedBatch) -> Appended:
        stamp = first.timestamp if self.settings.log_append_time else NO_TIMESTAMP
        return Appended(first.base_offset, first.last_offset, stamp, True)

    def roll_due(self, now_ms: int) -> bool:
        """Whether `segment.ms` has passed since the active segment's first append."""
        first_ms = self._active.first_append_ms
        return first_ms >= 0 and now_ms - first_ms >= self.settings.segment_ms

    def roll(self) -> None:
        """Seal the active segment and go on in a new one. A no-op while it is empty."""
        self._require_open()
        old = self._active
        if old.size == 0:
            return
        self._directory.claim(0)
        pool = self._pool
        new = Segment(
            self.path,
            empty_numbers(self.log_end),
            disk=self._disk,
            pool=pool,
            settings=self.settings,
        )
        try:
            old_file = pool.pin(old.path)
            new.activate(space=self._directory, create=True)
        except BaseException as fault:
            if old.unsynced is None:
                pool.unpin(old.path)
            if isinstance(fault, OSError):
                raise self._write_fault(fault) from fault
            raise
        self._active = new
        self.segments.add(new, trusted_from=0)
        self._pending.sealed.append((old, old_file, old.seal()))
        self._pending.snapshots.append((self.log_end, encode_snapshot(self.producers)))
        self._pending.names_changed = True
        self._request_sync()

    # Reading

    def read(self, offset: Offset, *, bytes_max: int, end: Offset | None = None) -> Bytes:
        """Whole batches from the one that holds `offset`, at least one, all below `end`.

        `end` is the visible end unless the caller says otherwise. Empty when there is nothing yet.
        """
        if self._ended:
            raise self._refused()
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRange(offset, log_start=self.log_start, log_end=self.log_end)
        if end is None:
            end = self.log_end if self._shows_at_once else self.visible_end
        try:
            return self.segments.read(offset, bytes_max=bytes_max, end=end)
        except OSError as fault:
            raise self._read_fault(fault) from fault

    def view(self, offset: Offset, *, bytes_max: int, end: Offset | None = None) -> Bytes:
        """What `read` answers, to be handed to a socket and never touched.

        Where the bytes are trusted it is a view of the mapped segment: no copy, valid as long as
        somebody holds it, also when the segment is trimmed or the log deleted. If it is truncated,
        or the disk fails, sending it fails with EFAULT, while looking at it kills the process.
        """
        if self._ended:
            raise self._refused()
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRange(offset, log_start=self.log_start, log_end=self.log_end)
        if end is None:
            end = self.log_end if self._shows_at_once else self.visible_end
        try:
            return self.segments.view(offset, bytes_max=bytes_max, end=end)
        except OSError as fault:
            raise self._read_fault(fault) from fault

    def is_recent(self, offset: Offset, size: int) -> bool:
        """Whether a view of `size` bytes at `offset` can be sent without waiting for the disk.

        Asks the kernel which pages it has: a microsecond, cheapest right after the view was made.
        False if in doubt.
        """
        if self._ended or not self.log_start <= offset < self.log_end:
            return False
        try:
            return self.segments.is_cached(offset, size)
        except (OSError, LogError):
            return False

    def find_by_time(self, timestamp: TimestampMs) -> tuple[Offset, TimestampMs] | None:
        """The first visible record at or after `timestamp`: its offset and its timestamp."""
        self._require_files()
        try:
            return self.segments.find_by_time(timestamp, start=self.log_start, end=self.visible_end)
        except OSError as fault:
            raise self._read_fault(fault) from fault

    def latest_by_time(self) -> tuple[Offset, TimestampMs] | None:
        """The visible record with the largest timestamp."""
        self._require_files()
        try:
            return self.segments.latest(start=self.log_start, end=self.visible_end)
        except OSError as fault:
            raise self._read_fault(fault) from fault

    def _read_fault(self, fault: OSError) -> Exception:
        known = refused(fault)
        return ReadFailed(fault.filename or self.path, fault) if known is fault else known

    # Waiting

    def watch(self, callback: Watcher) -> None:
        """Call back on the loop whenever more is visible, or the log failed, closed or was cut."""
        self._watchers.add(callback)

    def unwatch(self, callback: Watcher) -> None:
        self._watchers.remove(callback)

    def _show(self) -> None:
        """The visible end moved up."""
        self._waiters.wake(self.visible_end)
        self._watchers.notify()

    def wait_visible(self, end: Offset) -> asyncio.Future[None]:
        """Done once everything below `end` is visible; fails with the log.

        `end` may lie beyond the log end: then it is done when that much was appended.
        """
        future = asyncio.get_running_loop().create_future()
        if self._refusal is not None:
            future.set_exception(self._refused())
        elif end <= self.visible_end:
            future.set_result(None)
        else:
            self._waiters.add(end, future)
        return future

    # Durability

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
            checkpoint=self._checkpoint(clean=clean) if due else None,
            removals=tuple(pending.removals),
        )

    def _unsynced(self) -> tuple[File, ...]:
        file = self._active.unsynced
        return () if file is None else (file,)

    def _capture_checkpoint(self, pending: Pending) -> None:
        self._bytes_since_checkpoint = 0
        now_ms = self._directory.env.clock.now_ms()
        self.producers.expire(now_ms - self.settings.producer_expiration_ms)
        pending.snapshots.append((self.log_end, encode_snapshot(self.producers)))

    def _checkpoint(self, *, clean: bool) -> Checkpoint:
        return Checkpoint(
            boot=self._boot,
            clean=clean,
            log_start=self.log_start,
            durable_end=self.log_end,
            segments=tuple(segment.numbers for segment in self.segments),
            epochs=self.epochs.entries,
        )

    def end_sync(self, job: Job) -> None:
        assert isinstance(job, SyncJob)
        done = self._jobs.pop(0)
        for segment, _, _ in done.sealed:
            self._pool.unpin(segment.path)
            segment.release_indexes()
        self._note_durable(job.end)
        self._closed_clean = job.checkpoint is not None and job.checkpoint.clean
        for future in done.settlers:
            resolve(future)
        if done.sealed and self._directory.broken is None:
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

    # Shortening

    def trim(self, start: Offset) -> None:
        """Move the log start offset up, at most to the visible end.

        Segments wholly below it go with the next sync job, those being synced with the one after.
        """
        self._require_open()
        if not self.log_start <= start <= self.visible_end:
            raise OffsetOutOfRange(start, log_start=self.log_start, log_end=self.visible_end)
        self.log_start = start
        self.epochs.trim(start)
        self.segments.damage = [span for span in self.segments.damage if span[1] > start]
        self._pending.checkpoint_due = True
        self._request_sync()
        self._drop_below_start()
        self._watchers.notify()

    def _drop_below_start(self) -> None:
        unsynced = {one.base_offset for work in self._jobs for one, _, _ in work.sealed}
        unsynced |= {one.base_offset for one, _, _ in self._pending.sealed}
        for segment in list(self.segments)[:-1]:
            if segment.next_offset > self.log_start or segment.base_offset in unsynced:
                break
            self.segments.remove(segment)
            self._pool.forget(segment.path)
            self._pending.removals.append(segment.base_offset)
            self._pending.checkpoint_due = True
            self._request_sync()

    def truncate(self, end: Offset) -> None:
        """Forget every batch from the one that holds `end` on. Blocks; nothing may be pending.

        For a follower that diverged (KIP-101). Durable when it returns; cut off half way, the log
        ends somewhere between the old and the new end, and the follower truncates again.
        """
        self._require_open()
        directory = self._directory
        assert directory.syncs.is_idle(self), "settle before truncating"
        if not self.log_start <= end <= self.log_end:
            raise OffsetOutOfRange(end, log_start=self.log_start, log_end=self.log_end)
        border = Border(*self.segments.place_of(end))
        checkpoint = replace(self._checkpoint(clean=False), durable_end=self.durable_end)
        try:
            cut_back(self._disk, self._pool, self.path, self.segments, border, checkpoint)
            self._begin(directory.open_now(self.path, self.settings, start=border.offset))
        except OSError as fault:
            raise directory.syncs.latch(fault) from fault
        self._watchers.notify()

    # Ending

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
        return self._closed_clean and self._directory.syncs.is_idle(self)

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

    def _write_fault(self, fault: OSError) -> Exception:
        known = refused(fault)
        return self._directory.syncs.latch(fault) if known is fault else known

    def _require_files(self) -> None:
        if self._ended:
            raise self._refused()

    def _require_open(self) -> None:
        if self._refusal is not None:
            raise self._refused()

    def _refused(self) -> LogError:
        assert self._refusal is not None
        if self._directory.broken is not None:
            return LogBroken(self._refusal)
        return LogClosed(f"{self.path}: {self._refusal}")
