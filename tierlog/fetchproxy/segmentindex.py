"""The reader sections of one segment object: block CRCs, offset index, time index.

They lie side by side in the object, so one GET brings all three, and the entry has a CRC over them:
what passes it is what the uploader made from batches that it had checked. Kept as the bytes that
were fetched and searched in place: 2,000 entries would take a millisecond to unpack.

    block CRCs: u32 each | offset index: u32 last offset - base, u32 position
    time index: i64 timestamp, u32 last offset - base; all big-endian
"""

from bisect import bisect_left, bisect_right
from struct import Struct

from crc32c import crc32c

from tierlog.cold.entry import Entry
from tierlog.cold.segment_object import READER_SECTIONS, reader_span
from tierlog.hot.index import IndexEntry
from tierlog.hot.timeindex import TimeEntry
from tierlog.objectstore.port import Span
from tierlog.types import Bytes, Offset, Position, TimestampMs

_CRC = Struct(">I")
_PLACE = Struct(">II")
_TIME = Struct(">qI")


def sections_span(entry: Entry) -> Span:
    """Of the reader sections in the object."""
    return Span(*reader_span(entry))


def is_sound(entry: Entry, data: Bytes) -> bool:
    """Whether these are the bytes of the reader sections."""
    return len(data) == sections_span(entry).size and crc32c(data) == entry.index_crc32c


class SegmentIndex:
    """Of bytes that are sound."""

    __slots__ = (
        "_base",
        "_block_bytes",
        "_crcs",
        "_places",
        "_times",
        "count",
        "size",
        "time_count",
    )

    def __init__(self, entry: Entry, data: Bytes, *, block_bytes: int) -> None:
        start = sections_span(entry).start
        view = memoryview(data)
        self._crcs, self._places, self._times = (
            view[position - start : position - start + size]
            for position, size in (entry.sections[name] for name in READER_SECTIONS)
        )
        self._base = entry.base
        self._block_bytes = block_bytes
        self.size = len(data)
        self.count = len(self._places) // _PLACE.size
        self.time_count = len(self._times) // _TIME.size

    def entry(self, number: int) -> IndexEntry:
        relative, position = _PLACE.unpack_from(self._places, number * _PLACE.size)
        return IndexEntry(Offset(self._base + relative), Position(position))

    def time_entry(self, number: int) -> TimeEntry:
        timestamp, relative = _TIME.unpack_from(self._times, number * _TIME.size)
        return TimeEntry(TimestampMs(timestamp), Offset(self._base + relative))

    def count_ending_before(self, offset: Offset) -> int:
        """How many entries are of batches that end before `offset`."""
        relative = offset - self._base
        return bisect_left(range(self.count), relative, key=self._last_relative)

    def _last_relative(self, number: int) -> int:
        last: int = _PLACE.unpack_from(self._places, number * _PLACE.size)[0]
        return last

    def at_or_before(self, position: int) -> IndexEntry | None:
        """The entry with the largest position up to `position`."""
        number = bisect_right(range(self.count), position, key=self._position)
        return self.entry(number - 1) if number else None

    def first_behind(self, position: int) -> Position | None:
        """The smallest position of an entry that is larger than `position`."""
        number = bisect_right(range(self.count), position, key=self._position)
        return self.entry(number).position if number < self.count else None

    def _position(self, number: int) -> int:
        position: int = _PLACE.unpack_from(self._places, number * _PLACE.size)[1]
        return position

    def before_time(self, timestamp: TimestampMs) -> TimeEntry | None:
        """The last entry with a smaller timestamp: up to its offset everything is earlier."""
        number = bisect_left(
            range(self.time_count), timestamp, key=lambda number: self.time_entry(number).timestamp
        )
        return self.time_entry(number - 1) if number else None

    def bad_block(self, span: Span, data: Bytes) -> int | None:
        """The position of the first block of `data`, which is `span` of the object, that is not
        what was uploaded; `span` begins with a block and ends with one or with the data part."""
        if len(data) != span.size:
            return span.start + len(data)
        view = memoryview(data)
        for start in range(0, span.size, self._block_bytes):
            number = (span.start + start) // self._block_bytes
            (wanted,) = _CRC.unpack_from(self._crcs, number * _CRC.size)
            if crc32c(view[start : start + self._block_bytes]) != wanted:
                return span.start + start
        return None
