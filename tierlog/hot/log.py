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

from typing import TYPE_CHECKING, NamedTuple

from tierlog.hot.bytime import Found, Steps, run_now
from tierlog.hot.closing import ClosingLog
from tierlog.hot.errors import DiskFull, LogClosed, LogError, OffsetOutOfRange, TooManyFiles
from tierlog.hot.opening import Opened
from tierlog.hot.producers import ProducedBatch
from tierlog.hot.segment import Segment, empty_numbers
from tierlog.hot.settings import LogSettings
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


class Log(ClosingLog):
    __slots__ = ()

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
        super().__init__(directory, name, settings)
        if directory.broken is not None:
            raise directory.broken
        directory.attach(self)
        try:
            self._begin(opened or directory.open_now(self.path, settings, start=start))
        except BaseException:
            directory.detach(self)
            raise

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
        active = self._active
        if not active.has_room(size, last_offset):
            self.roll()
            active = self._active
        stamp = NO_TIMESTAMP
        if self._stamps:
            timestamp = stamp = TimestampMs(now_ms)
            patch_log_append_time(batch, timestamp_ms=now_ms)
        patch_offset(batch, base_offset, leader_epoch)
        try:
            active.append(batch, size, last_offset, timestamp, now_ms)
        except OSError as fault:
            raise self._directory.syncs.latch(fault) from fault
        self.log_end = active.next_offset
        if self._shows_at_once and (self._waiters.waiting or self._watchers.watching):
            self._show()
        if leader_epoch > self.epochs.latest:
            self.epochs.note(leader_epoch, base_offset)
        if has_producer:
            self.producers.note(header, base_offset, timestamp, now_ms=now_ms)
        self._bytes_since_checkpoint += size
        if not self._messages_since_sync:
            self._first_unsynced_ms = now_ms
        self._messages_since_sync += record_count
        if not self._sync_requested and (
            self._messages_since_sync >= self._flush_messages
            or self._bytes_since_checkpoint >= self._checkpoint_bytes
            or self._pool.is_crowded
        ):
            self._request_sync()
        return tuple.__new__(Appended, (base_offset, last_offset, stamp, False))

    def _duplicate_of(self, first: ProducedBatch) -> Appended:
        stamp = first.timestamp if self.settings.log_append_time else NO_TIMESTAMP
        return Appended(first.base_offset, first.last_offset, stamp, True)

    def roll_due(self, now_ms: int) -> bool:
        """Whether `segment.ms` has passed since the active segment's first append."""
        first_ms = self._active.first_append_ms
        return first_ms >= 0 and now_ms - first_ms >= self.settings.segment_ms

    def roll(self, *, to_free: bool = False) -> None:
        """Seal the active segment and go on in a new one. A no-op while it is empty.

        On a full disk it is refused, unless the old one is about to go (`to_free`): the reserve is
        there for the small files that this takes.
        """
        self._require_open()
        old = self._active
        if old.size == 0:
            return
        if not to_free:
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
        self._pending.snapshots.append((self.log_end, self.producers.copy()))
        self._pending.names_changed = True
        self._request_sync()

    def trim_expired(self, end: Offset) -> None:
        """Let go what `expired_end` found, the active segment included.

        Where not even an empty segment can take its place, for want of a block or a file, the
        sealed ones go alone: the active one is found expired again.
        """
        if end == self.log_end:
            try:
                self.roll(to_free=True)
            except (DiskFull, TooManyFiles):
                end = max(self.log_start, self._active.base_offset)
        self.trim(end)

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

    def measure(self, offset: Offset, *, end: Offset) -> tuple[int, bool]:
        """Bytes that one read from `offset` to `end` could give, and whether later appends could
        make them more: not so at the end of a sealed segment. Looks at headers, reads no batch."""
        self._require_files()
        try:
            return self.segments.measure(offset, end=end)
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

    def find_by_time(self, timestamp: TimestampMs) -> Found | None:
        """The first visible record at or after `timestamp`: its offset and its timestamp.

        Blocks for as long as it takes; on the loop take the steps of `search_time`.
        """
        return run_now(self.search_time(timestamp))

    def latest_by_time(self) -> Found | None:
        """The visible record with the largest timestamp. Blocks, too."""
        return run_now(self.search_latest())

    def search_time(self, timestamp: TimestampMs) -> Steps[Found | None]:
        """The steps to what `find_by_time` answers."""
        start, end = self.log_start, self.visible_end
        return self._guarded(self.segments.find_by_time(timestamp, start=start, end=end))

    def search_latest(self) -> Steps[Found | None]:
        return self._guarded(self.segments.latest(start=self.log_start, end=self.visible_end))

    def _guarded(self, steps: Steps[Found | None]) -> Steps[Found | None]:
        """The same steps, refused once the log has ended or was cut back between two of them."""
        segments = self.segments
        found: Found | None = None
        while True:
            self._require_files()
            if self.segments is not segments:
                raise LogClosed(f"{self.path} was cut back during a search")
            try:
                question = steps.send(found)
            except StopIteration as stop:
                result: Found | None = stop.value
                return result
            except OSError as fault:
                raise self._read_fault(fault) from fault
            found = yield question
