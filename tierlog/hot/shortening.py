"""Making a log shorter: from the front by a trim or a drop, from the back by truncation.

A trim is a wish: what lies below is given up, by retention or DeleteRecords, and `trimmed_to`
remembers it. A drop removes what another copy has: the records are as good as before, elsewhere.
`trimmed_to <= log_start`; the difference is what only the other copy can answer for.
"""

from dataclasses import replace

from tierlog.hot.compacting import CompactedLog
from tierlog.hot.cutting import Border, cut_back
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.hot.segment import Segment
from tierlog.types import Offset

NO_LIMIT = -1
"""Kafka's word for keeping records for ever, in `retention.ms` and `retention.bytes`."""


class ShortenedLog(CompactedLog):
    __slots__ = ()

    def expired_end(
        self, *, now_ms: int, retention_ms: int = NO_LIMIT, retention_bytes: int = NO_LIMIT
    ) -> Offset:
        """The log start offset that retention allows, at most the visible end.

        A segment goes once its largest timestamp is older than `retention_ms`, or what is left
        without it still has `retention_bytes`; the oldest first, whole ones only, the active one
        included. `trim_expired` takes the answer: a trim alone removes sealed segments only.
        """
        end, visible_end = self.log_start, self.visible_end
        excess = self.size_bytes - retention_bytes if retention_bytes >= 0 else -1
        for segment in self.segments:
            if segment.next_offset > visible_end:
                break
            if segment.size == 0:  # A recovery left it behind, or nothing came yet.
                continue
            is_old = 0 <= retention_ms < _age_ms(segment, now_ms)
            if not is_old and excess < segment.size:
                break
            excess -= segment.size
            end = max(end, segment.next_offset)
        return end

    def is_active_expired(self, *, now_ms: int, retention_ms: int) -> bool:
        """Whether the active segment has records, all of them older than `retention_ms`."""
        return self._active.size > 0 and 0 <= retention_ms < _age_ms(self._active, now_ms)

    def trim(self, start: Offset) -> None:
        """Give up what lies below `start`, at most the visible end, wherever it is kept.

        The log start offset moves along; below it already, only `trimmed_to` does. Segments wholly
        below the start go with the next sync job, those being synced with the one after.
        """
        self._require_open()
        if not self.trimmed_to <= start <= self.visible_end:
            raise OffsetOutOfRange(start, log_start=self.trimmed_to, log_end=self.visible_end)
        self.trimmed_to = start
        self._start_at(max(self.log_start, start))

    def drop(self, start: Offset) -> None:
        """Let go what lies below `start`, at most the visible end: another copy has it. As `trim`,
        but nothing is given up."""
        self._require_open()
        if not self.log_start <= start <= self.visible_end:
            raise OffsetOutOfRange(start, log_start=self.log_start, log_end=self.visible_end)
        self._start_at(start)

    def _start_at(self, start: Offset) -> None:
        self.log_start = start
        self.epochs.trim(start)
        self.segments.damage = [span for span in self.segments.damage if span[1] > start]
        self._pending.checkpoint_due = True
        self._request_sync()
        self._drop_below_start()
        self._watchers.notify()

    def truncate(self, end: Offset) -> None:
        """Forget every batch from the one that holds `end` on. Blocks; nothing may be pending.

        For a follower that diverged (KIP-101). Durable when it returns; cut off half way, the log
        ends somewhere between the old and the new end, and the follower truncates again.
        """
        self._require_open()
        directory = self._directory
        assert directory.syncs.is_idle(self), "settle before truncating"
        assert not self._swaps, "settle before truncating"
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


def _age_ms(segment: Segment, now_ms: int) -> int:
    """Since its newest record, or its first append where the records have no time. -1: unknown."""
    newest_ms = max(segment.max_timestamp, -1)
    since_ms = newest_ms if newest_ms >= 0 else segment.first_append_ms
    return now_ms - since_ms if since_ms >= 0 else -1
