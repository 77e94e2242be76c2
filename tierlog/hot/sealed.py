"""What a log has ready for another tier: segments that will never change again.

The log does not know who takes them. Whoever has a copy elsewhere drops them (`shortening`).
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

from tierlog.env import Disk
from tierlog.hot.files import FilePool
from tierlog.hot.replay import load_producers
from tierlog.hot.segment import Segment, SegmentNumbers
from tierlog.hot.settings import LogSettings
from tierlog.hot.snapshot import encode_snapshot
from tierlog.hot.syncing import SyncedLog
from tierlog.types import Offset, Position, TimestampMs

FILES_MAX = 2
"""A replay looks at one segment at a time."""


class SealedSegment(NamedTuple):
    """A segment that takes no more appends; its bytes and its name are durable."""

    base_offset: Offset
    next_offset: Offset
    size: Position
    max_timestamp: TimestampMs
    first_append_ms: int
    last_append_ms: int
    """At the latest: the first append of the segment behind it. -1 if that has none yet."""
    path: str


class SealedLog(SyncedLog):
    __slots__ = ()

    @property
    def active_since_ms(self) -> int:
        """Wall clock of the active segment's first append, -1 while it is empty."""
        return self._active.first_append_ms

    def sealed(self) -> tuple[SealedSegment, ...]:
        """Segments that are sealed and synced, and visible to the end; oldest first.

        Empty ones are left out, and so is everything from the first segment on that is not ready.
        One that a trim is about to remove may be among them.
        """
        self._require_files()
        return tuple(_sealed(segment, following) for segment, following in self._ready())

    def _ready(self) -> Iterator[tuple[Segment, Segment]]:
        """Each with the segment behind it."""
        ready_end = min(self.durable_end, self.visible_end)
        unsynced = self._unsynced_bases()
        for segment, following in pairwise(self.segments):
            if segment.next_offset > ready_end or segment.base_offset in unsynced:
                return
            if segment.size:
                yield segment, following

    def damage_in(self, start: Offset, end: Offset) -> tuple[Offset, Offset] | None:
        """The first range of [start, end) that recovery found damaged: records are missing."""
        spans = sorted(self.segments.damage)
        return next((span for span in spans if span[0] < end and span[1] > start), None)

    async def producers_at(self, offset: Offset) -> bytes:
        """The snapshot of the producers' state at the end of a sealed segment.

        Read in a thread, from the snapshot that was written when the segment was sealed; where that
        is missing or damaged, from an older one and the batches behind it.
        """
        self._require_files()
        env = self._directory.env
        numbers = [segment.numbers for segment in self.segments if segment.base_offset < offset]
        return await env.tasks.in_thread(
            _producers_at, self._disk, self.path, numbers, offset, self.settings, env.clock.now_ms()
        )


def _sealed(segment: Segment, following: Segment) -> SealedSegment:
    return SealedSegment(
        segment.base_offset,
        segment.next_offset,
        segment.size,
        segment.max_timestamp,
        segment.first_append_ms,
        following.first_append_ms,
        segment.path,
    )


def _producers_at(
    disk: Disk,
    directory: str,
    numbers: list[SegmentNumbers],
    offset: Offset,
    settings: LogSettings,
    now_ms: int,
) -> bytes:
    """Blocks. Has files of its own: those of the log belong to the loop's thread."""
    with closing(FilePool(disk, open_max=FILES_MAX)) as pool:
        segments = [
            Segment(directory, one, disk=disk, pool=pool, settings=settings) for one in numbers
        ]
        producers = load_producers(
            disk,
            directory,
            segments,
            end=offset,
            contiguous=settings.contiguous,
            now_ms=now_ms,
        )
        return encode_snapshot(producers)
