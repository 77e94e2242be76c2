"""The reader sections of one segment object: block CRCs, offset index, time index.

They lie side by side in the object, so one GET brings all three, and the entry has a CRC over them:
what passes it is what the uploader made from batches that it had checked. The offset index, which
every read searches, is unpacked into two columns of numbers (some microseconds for 2,000 entries);
the rest is kept as it came.

    block CRCs: u32 each | offset index: u32 last offset - base, u32 position
    time index: i64 timestamp, u32 last offset - base; all big-endian
"""

import sys
from array import array
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
_U32 = "I"
assert array(_U32).itemsize == 4
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
        "_last_relatives",
        "_positions",
        "_times",
        "count",
        "size",
        "time_count",
    )

    def __init__(self, entry: Entry, data: Bytes, *, block_bytes: int) -> None:
        start = sections_span(entry).start
        view = memoryview(data)
        self._crcs, places, self._times = (
            view[position - start : position - start + size]
            for position, size in (entry.sections[name] for name in READER_SECTIONS)
        )
        self._base = entry.base
        self._block_bytes = block_bytes
        numbers = _unpacked(places)
        self._last_relatives, self._positions = numbers[0::2], numbers[1::2]
        self.size = len(data) + len(places)
        """What it takes in memory."""
        self.count = len(self._positions)
        self.time_count = len(self._times) // _TIME.size

    def entry(self, number: int) -> IndexEntry:
        return IndexEntry(
            Offset(self._base + self._last_relatives[number]), Position(self._positions[number])
        )

    def time_entry(self, number: int) -> TimeEntry:
        timestamp, relative = _TIME.unpack_from(self._times, number * _TIME.size)
        return TimeEntry(TimestampMs(timestamp), Offset(self._base + relative))

    def count_ending_before(self, offset: Offset) -> int:
        """How many entries are of batches that end before `offset`."""
        return bisect_left(self._last_relatives, offset - self._base)

    def at_or_before(self, position: int) -> IndexEntry | None:
        """The entry with the largest position up to `position`."""
        number = bisect_right(self._positions, position)
        return self.entry(number - 1) if number else None

    def first_behind(self, position: int) -> Position | None:
        """The smallest position of an entry that is larger than `position`."""
        number = bisect_right(self._positions, position)
        return Position(self._positions[number]) if number < self.count else None

    def before_time(self, timestamp: TimestampMs) -> TimeEntry | None:
        """The last entry with a smaller timestamp: up to its offset everything is earlier."""
        number = bisect_left(
            range(self.time_count), timestamp, key=lambda number: self.time_entry(number).timestamp
        )
        return self.time_entry(number - 1) if number else None

    def bad_block(self, span: Span, data: Bytes, crcs: tuple[int, ...] = ()) -> int | None:
        """The position of the first block of `data`, which is `span` of the object, that is not
        what was uploaded; `span` begins with a block and ends with one or with the data part.
        `crcs`: of its blocks, where they were taken already."""
        if len(data) != span.size:
            return span.start + len(data)
        view = memoryview(data)
        first = span.start // self._block_bytes
        for number, start in enumerate(range(0, span.size, self._block_bytes)):
            (wanted,) = _CRC.unpack_from(self._crcs, (first + number) * _CRC.size)
            found = crcs[number] if crcs else crc32c(view[start : start + self._block_bytes])
            if found != wanted:
                return span.start + start
        return None


def _unpacked(numbers: Bytes) -> "array[int]":
    """Big-endian u32, one after the other."""
    made = array(_U32)
    made.frombytes(numbers)
    if sys.byteorder == "little":
        made.byteswap()
    return made
