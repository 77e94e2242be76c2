"""The segments of a log in order, and reading across them.

A read that falls into a gap between segments goes on behind it, unless the gap is damage: then the
reader is told (`DamagedOffsets`), because records that once were there are missing.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial

from tierlog.hot import bytime
from tierlog.hot.bytime import Found, Steps
from tierlog.hot.errors import DamagedOffsets
from tierlog.hot.reader import EVERYTHING, SegmentReader
from tierlog.hot.segment import Segment
from tierlog.types import Bytes, Offset, Position, TimestampMs

OFFSET_MAX = Offset(2**63 - 1)
INDEXES_LOADED_MAX = 16
"""Sealed segments whose indexes stay in memory: at 128 MiB and 4 KiB a quarter MiB each."""


class SegmentList:
    def __init__(self, path: str, damage: list[tuple[Offset, Offset]]) -> None:
        self._path = path
        self._readers: list[SegmentReader] = []
        self._bases: list[Offset] = []
        self._loaded: dict[Offset, Segment] = {}
        self._recent: SegmentReader | None = None
        self._swap_count = 0
        self.damage = damage
        """Ranges that recovery found damaged, now or in an earlier life."""

    def __iter__(self) -> Iterator[Segment]:
        return (reader.segment for reader in self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def active(self) -> Segment:
        return self._readers[-1].segment

    def add(self, segment: Segment, *, trusted_from: int = EVERYTHING) -> None:
        self._readers.append(SegmentReader(segment, trusted_from=trusted_from))
        self._bases.append(segment.base_offset)
        self._recent = None  # It may just have been sealed: its indexes count from now on.

    def remove(self, segment: Segment) -> None:
        number = self._bases.index(segment.base_offset)
        del self._readers[number], self._bases[number]
        self._recent = None
        self._loaded.pop(segment.base_offset, None)

    def swap(self, old: Sequence[Segment], new: Segment) -> None:
        """One segment takes the place of some that follow each other. This process wrote it."""
        number = self._bases.index(old[0].base_offset)
        self._readers[number : number + len(old)] = [SegmentReader(new, trusted_from=0)]
        self._bases[number : number + len(old)] = [new.base_offset]
        self._recent = None
        self._swap_count += 1
        for segment in old:
            self._loaded.pop(segment.base_offset, None)

    def read(self, offset: Offset, *, bytes_max: int, end: Offset) -> Bytes:
        """Whole batches of one segment from `offset` on, at least one, all below `end`."""
        if offset >= end:
            return b""
        reader = self._recent
        if reader is None or not reader.segment.base_offset <= offset < reader.segment.next_offset:
            reader = self._turn_to(offset)
            if reader is None:
                return b""
            offset = max(offset, reader.segment.base_offset)
        return reader.read(offset, bytes_max=bytes_max, end=end)

    def view(self, offset: Offset, *, bytes_max: int, end: Offset) -> Bytes:
        """The same bytes, to be sent and not looked at."""
        if offset >= end:
            return b""
        reader = self._recent
        if reader is None or not reader.segment.base_offset <= offset < reader.segment.next_offset:
            reader = self._turn_to(offset)
            if reader is None:
                return b""
            offset = max(offset, reader.segment.base_offset)
        return reader.view(offset, bytes_max=bytes_max, end=end)

    def measure(self, offset: Offset, *, end: Offset) -> tuple[int, bool]:
        """Bytes of the segment that holds `offset`, from there to `end`; whether it still grows."""
        reader = self._turn_to(offset)
        if reader is None:
            return 0, False  # A gap at the end: nothing will ever be appended there.
        segment = reader.segment
        begin = reader.locate(max(offset, segment.base_offset))
        stop = reader.locate(end, behind=begin)[0]
        return max(stop - begin[0], 0), segment.is_active

    def is_cached(self, offset: Offset, size: int) -> bool:
        """Whether `size` bytes from the batch that holds `offset` on are in the page cache."""
        reader = self._recent
        if reader is None or not reader.segment.base_offset <= offset < reader.segment.next_offset:
            reader = self._turn_to(offset)
        return reader is not None and reader.is_cached(offset, size)

    def _turn_to(self, offset: Offset) -> SegmentReader | None:
        """The reader that answers for `offset`; it is asked first the next time."""
        reader = self._recent
        if reader is None or not reader.segment.base_offset <= offset < reader.segment.next_offset:
            reader = self._recent = self._reader_of(offset)
            if reader is not None:
                self._note_use(reader.segment)
        return reader

    def _reader_of(self, offset: Offset) -> SegmentReader | None:
        """The segment that holds `offset` or, across a gap, the first one behind it."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while number < len(self._readers):
            reader = self._readers[number]
            # A recovery may leave an empty segment behind: it holds no offset at all.
            if max(offset, reader.segment.base_offset) < reader.segment.next_offset:
                self._refuse_damage(offset, reader.segment.base_offset)
                return reader
            number += 1
        self._refuse_damage(offset, OFFSET_MAX)
        return None

    def _refuse_damage(self, offset: Offset, until: Offset) -> None:
        """A reader does not pass over damage in silence on its way from one offset to another."""
        if offset >= until:
            return
        for start, end in sorted(self.damage):
            if start < until and offset < end:
                raise DamagedOffsets(
                    start, end, where=self._path, reason="recovery could not read them"
                )

    def place_of(self, offset: Offset) -> tuple[Segment, Offset, Position]:
        """The segment that ends before `offset` does: the batch border at or before it, there."""
        reader = self._readers[max(bisect_right(self._bases, offset) - 1, 0)]
        if offset >= reader.segment.next_offset:
            return reader.segment, reader.segment.next_offset, reader.segment.size
        position, base_offset = reader.locate(offset)
        return reader.segment, base_offset, position

    def find_by_time(
        self, timestamp: TimestampMs, *, start: Offset, end: Offset
    ) -> Steps[Found | None]:
        """The first record of [start, end) with a timestamp at or after `timestamp`."""
        while (reader := self._first_reaching(timestamp, start=start, end=end)) is not None:
            self._note_use(reader.segment)
            batch, behind = bytime.batch_at_time(reader, timestamp, start=start)
            if batch is None:
                yield None
            else:
                found = yield bytime.first_at_time(batch, timestamp, start)
                if found is not None:
                    return found if found[0] < end else None
            start = behind
        return None

    def _first_reaching(
        self, timestamp: TimestampMs, *, start: Offset, end: Offset
    ) -> SegmentReader | None:
        for reader in self._readers[max(bisect_right(self._bases, start) - 1, 0) :]:
            segment = reader.segment
            if start < min(segment.next_offset, end) and segment.max_timestamp >= timestamp:
                return reader
        return None

    def latest(self, *, start: Offset, end: Offset) -> Steps[Found | None]:
        """The record of [start, end) with the largest timestamp, the first of several."""
        while True:
            before = self._swap_count
            found = yield from self._latest(start=start, end=end)
            if self._swap_count == before:
                return found  # Else a segment was replaced under the search.

    def _latest(self, *, start: Offset, end: Offset) -> Steps[Found | None]:
        best: Found | None = None
        for reader in sorted(self._readers, key=lambda one: -one.segment.max_timestamp):
            segment = reader.segment
            if segment.max_timestamp < (0 if best is None else best[1]):
                break
            if best is not None and (-segment.max_timestamp, segment.base_offset) > (
                -best[1],
                best[0],
            ):
                continue
            if start < segment.next_offset and segment.base_offset < end and not self._lost(reader):
                self._note_use(segment)
                is_gone = partial(self._lost, reader)
                found = yield from bytime.latest(reader, start=start, end=end, is_gone=is_gone)
                if found and (best is None or (-found[1], found[0]) < (-best[1], best[0])):
                    best = found
        return best

    def _lost(self, reader: SegmentReader) -> bool:
        """Whether its segment was removed."""
        number = bisect_right(self._bases, reader.segment.base_offset) - 1
        return number < 0 or self._readers[number] is not reader

    def _note_use(self, segment: Segment) -> None:
        """Sealed segments keep their indexes in memory while they are among the last used."""
        if segment.is_active or next(reversed(self._loaded), None) == segment.base_offset:
            return
        self._loaded.pop(segment.base_offset, None)
        self._loaded[segment.base_offset] = segment
        if len(self._loaded) > INDEXES_LOADED_MAX:
            oldest = next(iter(self._loaded))
            self._loaded.pop(oldest).release_indexes()
