"""Making a log shorter: from the front by retention, from the back by truncation."""

from dataclasses import replace

from tierlog.hot.cutting import Border, cut_back
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.hot.syncing import SyncedLog
from tierlog.types import Offset


class ShortenedLog(SyncedLog):
    __slots__ = ()

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
