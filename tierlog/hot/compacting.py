"""A log's side of compaction: which segments may be cleaned, and how a cleaned one comes in.

The cleaner works beside the log, in threads, on segments that take no more appends. When a cleaned
one is ready the log takes it over with its next sync job, together with the checkpoint that lists
it. Until then readers have the old segments; their files are pinned, so that a reader does not
meet the new file under the old name.
"""

from collections.abc import Sequence
from dataclasses import replace

from tierlog.hot.errors import CleaningOvertaken
from tierlog.hot.job import Swap
from tierlog.hot.sealed import SealedLog
from tierlog.hot.segment import Segment, SegmentNumbers
from tierlog.types import Offset


class CompactedLog(SealedLog):
    __slots__ = ()

    def cleanable(self) -> tuple[Segment, ...]:
        """Segments that are sealed and synced, and visible to the end; oldest first."""
        self._require_open()
        return tuple(segment for segment, _ in self._ready())

    async def forget_replaced(self) -> None:
        """Done once the checkpoint on the disk speaks of no swap: then another may be prepared."""
        self._require_open()
        if self._names_replaced:
            self._pending.checkpoint_due = True
            await self.settle()
        if self._names_replaced or self._swaps:
            raise CleaningOvertaken(f"{self.path}: an earlier swap is not done yet")

    def begin_swap(self, old: Sequence[Segment], numbers: SegmentNumbers) -> None:
        """Put the segment that `make_ready` left, with these numbers, in the place of `old` ones.

        With the next job: `settle` says when it is done. From here on its files are the log's. If
        the old ones are not there any more (`CleaningOvertaken`) nothing has happened.
        """
        self._require_open()
        present = set(self.cleanable())
        if self._swaps or not present.issuperset(old):
            raise CleaningOvertaken(f"{self.path}: the log has changed under the cleaning")
        new = Segment(
            self.path,
            numbers,
            disk=self._disk,
            pool=self._pool,
            settings=replace(self.settings, contiguous=False),
        )
        try:
            for segment in old:
                self._pool.pin(segment.path)
        except BaseException:
            for segment in old:
                self._pool.unpin(segment.path)
            raise
        self._pending.swap = Swap(tuple(old), new)
        self._pending.checkpoint_due = True
        self._request_sync()

    @property
    def _swaps(self) -> list[Swap]:
        """Those that are not done."""
        works = (*self._jobs, self._pending)
        return [work.swap for work in works if work.swap is not None]

    def note_cleaned(self, end: Offset) -> None:
        """Everything below `end` is clean. Written down with the next job."""
        self._require_open()
        self.cleaned_to = max(self.cleaned_to, end)
        self._pending.checkpoint_due = True
        self._request_sync()
