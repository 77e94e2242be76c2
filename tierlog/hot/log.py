"""The local log of one partition.

Appends go to the active segment, a sync job makes them durable, readers see what is visible. All
methods run on the loop's thread; only `SyncJob.run` blocks on the disk, in a thread. Opening,
`truncate` and `close_now` block too: whoever calls them knows.

What always holds, all ends exclusive:
- `log_start <= visible_end <= log_end` and `durable_end <= log_end`; none but `truncate` moves an
  end back. `visible_end` is `durable_end` at `flush.messages=1`, else `log_end`.
- Segments follow each other by base offset. Between two of them there may be a gap, left by a
  recovery; inside one, offsets are contiguous (compacted topics aside).
- After a write or fsync failed nothing is accepted any more (`LogBroken`).
"""

import asyncio
from dataclasses import replace
from typing import NamedTuple

from tierlog.hot.checkpoint import Checkpoint, store_checkpoint
from tierlog.hot.directory import LogDirectory
from tierlog.hot.endmark import store_end
from tierlog.hot.errors import LogBroken, LogClosed, LogError, OffsetOutOfRange
from tierlog.hot.job import Pending, SyncJob
from tierlog.hot.producers import ProducedBatch
from tierlog.hot.recovery import Recovery
from tierlog.hot.replay import drop_snapshots
from tierlog.hot.salvage import known_damage, remove_segment
from tierlog.hot.segment import Segment, empty_numbers
from tierlog.hot.segments import SegmentList
from tierlog.hot.settings import LogSettings
from tierlog.hot.smallfile import make_directory
from tierlog.hot.snapshot import encode_snapshot
from tierlog.hot.store import refused
from tierlog.hot.sync import Job
from tierlog.hot.waiters import Waiters, reject, resolve
from tierlog.records.batch import patch_log_append_time, patch_offset
from tierlog.records.header import BatchHeader
from tierlog.types import NO_TIMESTAMP, Bytes, LeaderEpoch, Offset, TimestampMs, WritableBytes

FIRST_OFFSET = Offset(0)


class Appended(NamedTuple):
    """Where a batch stands. A duplicate names the place of its first copy."""

    base_offset: Offset
    last_offset: Offset
    timestamp: TimestampMs
    """Log append time, or -1 where the producer's own timestamps stand."""
    is_duplicate: bool


class Log:
    def __init__(
        self,
        directory: LogDirectory,
        name: str,
        settings: LogSettings,
        *,
        start: Offset = FIRST_OFFSET,
    ) -> None:
        """Open the log in `directory`/`name`, or begin one at offset `start`."""
        self.path = f"{directory.path}/{name}"
        self.settings = settings
        self._stamps = settings.log_append_time
        self._flush_messages = settings.flush_messages
        self._checkpoint_bytes = settings.checkpoint_bytes
        self._directory = directory
        self._disk = directory.disk
        self._boot = directory.disk.boot_id()
        self._waiters = Waiters()
        self._jobs: list[Pending] = []
        self._refusal: str | None = None
        self._closed = False
        if directory.broken is not None:
            raise directory.broken
        make_directory(self._disk, self.path)
        self._open(start)
        directory.attach(self)

    def _open(self, start: Offset) -> None:
        """Recover what is on the disk and begin from there."""
        directory = self._directory
        recovered = Recovery(
            disk=self._disk,
            directory=self.path,
            pool=directory.pool,
            settings=self.settings,
            start=start,
            now_ms=directory.env.clock.now_ms(),
        ).run()
        self.scanned_bytes = recovered.scanned_bytes
        self.gaps = recovered.gaps
        self.log_start = recovered.log_start
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        self.segments = SegmentList(self.path, known_damage(self._disk, self.path))
        for segment in recovered.segments:
            trusted = recovered.trusted_from.get(segment.base_offset, segment.size)
            self.segments.add(segment, trusted_from=trusted)
        self._active = recovered.segments[-1]
        self._active_file = self._active.activate(space=directory)
        if self._active.size and self._active.first_append_ms < 0:
            self._active.first_append_ms = directory.env.clock.now_ms()
        self.log_end = self.durable_end = self._active.next_offset
        self._pending = Pending()
        self._bytes_since_checkpoint = 0
        self._messages_since_sync = 0

    @property
    def visible_end(self) -> Offset:
        """What consumers may see of this replica."""
        return self.durable_end if self._flush_messages == 1 else self.log_end

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
        has_producer = header.producer_id >= 0
        if has_producer and (first := self.producers.check(header)) is not None:
            return self._duplicate_of(first)
        size = len(batch)
        base_offset = self.log_end
        last_offset = Offset(base_offset + header.last_offset_delta)
        if not self._active.has_room(size, last_offset):
            self.roll()
        timestamp, stamp = header.max_timestamp, NO_TIMESTAMP
        if self._stamps:
            timestamp = stamp = TimestampMs(now_ms)
            patch_log_append_time(batch, timestamp_ms=now_ms)
        patch_offset(batch, base_offset, leader_epoch)
        try:
            self._active.append(batch, size, last_offset, timestamp, now_ms)
        except OSError as fault:
            raise self._directory.syncs.latch(fault) from fault
        self.log_end = Offset(last_offset + 1)
        if leader_epoch > self.epochs.latest:
            self.epochs.note(leader_epoch, base_offset)
        if has_producer:
            self.producers.note(header, base_offset, timestamp, now_ms=now_ms)
        self._bytes_since_checkpoint += size
        self._messages_since_sync += header.record_count
        if (
            self._messages_since_sync >= self._flush_messages
            or self._bytes_since_checkpoint >= self._checkpoint_bytes
        ):
            self._directory.syncs.request(self)
        return Appended(base_offset, last_offset, stamp, False)

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
        old, old_file = self._active, self._active_file
        if old.size == 0:
            return
        self._directory.claim(0)
        new = Segment(
            self.path,
            empty_numbers(self.log_end),
            disk=self._disk,
            pool=self._directory.pool,
            settings=self.settings,
        )
        try:
            self._active_file = new.activate(space=self._directory, create=True)
        except OSError as fault:
            full = refused(fault)
            raise (self._directory.syncs.latch(fault) if full is fault else full) from fault
        self._active = new
        self.segments.add(new, trusted_from=0)
        self._pending.sealed.append((old, old_file, old.seal()))
        self._pending.snapshots.append((self.log_end, encode_snapshot(self.producers)))
        self._pending.names_changed = True
        self._directory.syncs.request(self)

    # Reading

    def read(self, offset: Offset, *, bytes_max: int, end: Offset | None = None) -> Bytes:
        """Whole batches from the one that holds `offset`, at least one, all below `end`.

        `end` is the visible end unless the caller says otherwise. Empty when there is nothing yet.
        """
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRange(offset, log_start=self.log_start, log_end=self.log_end)
        end = self.visible_end if end is None else end
        return self.segments.read(offset, bytes_max=bytes_max, end=end)

    def find_by_time(self, timestamp: TimestampMs) -> tuple[Offset, TimestampMs] | None:
        """The first visible record at or after `timestamp`: its offset and its timestamp."""
        return self.segments.find_by_time(timestamp, start=self.log_start, end=self.visible_end)

    def latest_by_time(self) -> tuple[Offset, TimestampMs] | None:
        """The visible record with the largest timestamp."""
        return self.segments.latest(start=self.log_start, end=self.visible_end)

    # Durability

    def wait_visible(self, end: Offset) -> asyncio.Future[None]:
        """Done once everything below `end` is visible; fails with the log. `end` <= `log_end`."""
        assert end <= self.log_end
        future = asyncio.get_running_loop().create_future()
        if self._refusal is not None:
            future.set_exception(self._refused())
        elif end <= self.visible_end:
            future.set_result(None)
        else:
            self._waiters.add(end, future)
        return future

    def settle(self) -> asyncio.Future[None]:
        """Done once everything that is pending now is on the disk, trims included."""
        if self._refusal is None:
            return self._settle()
        future = asyncio.get_running_loop().create_future()
        future.set_exception(self._refused())
        return future

    def _settle(self) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._pending.settlers.append(future)
        self._directory.syncs.request(self)
        return future

    def begin_sync(self, *, clean: bool = False) -> SyncJob:
        pending, self._pending = self._pending, Pending()
        self._jobs.append(pending)
        self._messages_since_sync = 0
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
            files=(*(file for _, file, _ in pending.sealed), self._active_file),
            sealed_sizes=tuple((file, one.size) for one, file, _ in pending.sealed),
            indexes=tuple(indexes),
            snapshots=tuple(dict(pending.snapshots).items()),
            names_changed=pending.names_changed,
            checkpoint=self._checkpoint(clean=clean) if due else None,
            removals=tuple(pending.removals),
        )

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
            self._directory.pool.unpin(segment.path)
            segment.release_indexes()
        self.durable_end = max(self.durable_end, job.end)
        self._waiters.wake(self.durable_end)
        for future in done.settlers:
            resolve(future)
        if done.sealed and self._refusal is None:
            self._drop_below_start()  # A trim had to leave them to their job.

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
        self._pending.checkpoint_due = True
        self._directory.syncs.request(self)
        self._drop_below_start()

    def _drop_below_start(self) -> None:
        unsynced = {one.base_offset for work in self._jobs for one, _, _ in work.sealed}
        unsynced |= {one.base_offset for one, _, _ in self._pending.sealed}
        for segment in list(self.segments)[:-1]:
            if segment.next_offset > self.log_start or segment.base_offset in unsynced:
                break
            self.segments.remove(segment)
            self._directory.pool.forget(segment.path)
            self._pending.removals.append(segment.base_offset)
            self._pending.checkpoint_due = True
            self._directory.syncs.request(self)

    def truncate(self, end: Offset) -> None:
        """Forget every batch from the one that holds `end` on. Blocks; nothing may be pending.

        For a follower that diverged (KIP-101). Durable when it returns; cut off half way, the log
        ends somewhere between the old and the new end, and the follower truncates again.
        """
        self._require_open()
        assert self._directory.syncs.is_idle(self), "settle before truncating"
        if not self.log_start <= end <= self.log_end:
            raise OffsetOutOfRange(end, log_start=self.log_start, log_end=self.log_end)
        try:
            self._cut(end)
        except OSError as fault:
            raise self._directory.syncs.latch(fault) from fault

    def _cut(self, end: Offset) -> None:
        kept, cut, position = self.segments.place_of(end)
        self.epochs.truncate(cut)
        checkpoint = replace(
            self._checkpoint(clean=False),
            durable_end=min(self.durable_end, cut),
            # Not the one that is cut: even if it is kept whole, its end may not be synced yet.
            segments=tuple(
                one.numbers for one in self.segments if one.next_offset <= kept.base_offset
            ),
        )
        store_checkpoint(self._disk, self.path, checkpoint)
        store_end(self._disk, self.path, checkpoint.durable_end, sync=True)
        drop_snapshots(self._disk, self.path, lambda offset: offset > cut)
        for segment in reversed(list(self.segments)):
            if segment.base_offset > kept.base_offset:
                self._directory.pool.forget(segment.path)
                remove_segment(self._disk, self.path, segment.base_offset)
                self._disk.sync_dir(self.path)
        kept.file().truncate(position)
        kept.file().fdatasync()
        self._open(cut)

    # Ending

    def fail(self, broken: LogBroken) -> None:
        """The directory broke: nobody gets an answer that the disk does not back."""
        self._refuse(str(broken))
        for work in [*self._jobs, self._pending]:
            for future in work.settlers:
                reject(future, self._refused())

    async def close(self) -> None:
        """Sync, write a clean checkpoint, let go of the files. Nothing more the second time.

        In a broken directory nothing is written any more. `LogBroken` if it breaks meanwhile.
        """
        if not self._begin_close():
            return
        directory = self._directory
        try:
            while directory.broken is None and not directory.syncs.is_idle(self):
                await self._settle()
            if directory.broken is None:
                job = self.begin_sync(clean=True)
                await directory.env.tasks.in_thread(job.run)
                self.end_sync(job)
        except OSError as fault:
            raise directory.syncs.latch(fault) from fault
        finally:
            directory.detach(self)
        self._let_go()

    def close_now(self) -> None:
        """The same, blocking, for tools without a loop; everything pending goes along."""
        if not self._begin_close():
            return
        try:
            if self._directory.broken is None:
                job = self.begin_sync(clean=True)
                job.run()
                self.end_sync(job)
        except OSError as fault:
            raise self._directory.syncs.latch(fault) from fault
        finally:
            self._directory.detach(self)
        self._let_go()

    def _begin_close(self) -> bool:
        if self._closed:
            return False
        self._closed = True
        if self._refusal is None:
            self._refuse("the log is closed")
        return True

    def _let_go(self) -> None:
        if self._directory.broken is not None:
            return  # A job may still be under way on these files; they go with the directory.
        for segment in self.segments:
            self._directory.pool.forget(segment.path)

    def _refuse(self, sentence: str) -> None:
        self._refusal = sentence
        self._waiters.fail(self._refused())

    def _require_open(self) -> None:
        if self._refusal is not None:
            raise self._refused()

    def _refused(self) -> LogError:
        assert self._refusal is not None
        if self._directory.broken is not None:
            return LogBroken(self._refusal)
        return LogClosed(f"{self.path}: {self._refusal}")
