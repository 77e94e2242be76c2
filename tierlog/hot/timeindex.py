"""Sparse time index of one segment.

An entry (timestamp, offset) says: the largest timestamp up to and including `offset` is
`timestamp`, and the batch that ends at `offset` has it. Twelve bytes, Kafka's layout: timestamp
(i64), offset relative to the base (u32), both big-endian. Not checksummed: whoever follows an entry
compares it with the batch and rebuilds the index when they differ.

Invariant: entries rise strictly in both columns.
"""

from struct import Struct
from typing import NamedTuple

from tierlog.hot.pairs import RisingPairs
from tierlog.types import Bytes, Offset, TimestampMs

ENTRY = Struct(">qI")


class TimeEntry(NamedTuple):
    timestamp: TimestampMs
    last_offset: Offset


class TimeIndex:
    __slots__ = ("base_offset", "pairs")

    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.pairs = RisingPairs(ENTRY)

    def __len__(self) -> int:
        return len(self.pairs)

    def maybe_append(self, timestamp: TimestampMs, last_offset: Offset) -> None:
        """Add an entry if it says something new: a larger maximum, further on."""
        relative = last_offset - self.base_offset
        last_timestamp, last_relative = self.pairs.last
        if timestamp > last_timestamp and relative > last_relative:
            self.pairs.append(timestamp, relative)

    def before(self, timestamp: TimestampMs) -> TimeEntry | None:
        """The last entry whose timestamp is smaller: what is sought lies behind its offset."""
        return self._entry(self.pairs.count_at_most(timestamp - 1, column=0))

    def before_offset(self, offset: Offset) -> TimeEntry | None:
        """The last entry of a batch that ends before `offset`."""
        return self._entry(self.pairs.count_at_most(offset - self.base_offset - 1, column=1))

    def _entry(self, count: int) -> TimeEntry | None:
        if not count:
            return None
        found, relative = self.pairs.pair(count - 1)
        return TimeEntry(TimestampMs(found), Offset(self.base_offset + relative))

    def truncate(self, offset: Offset) -> None:
        """Forget entries at `offset` and after it."""
        self.pairs.keep(self.pairs.count_at_most(offset - self.base_offset - 1, column=1))

    def to_bytes(self) -> bytes:
        return self.pairs.to_bytes()

    @classmethod
    def from_bytes(cls, base_offset: Offset, data: Bytes) -> "TimeIndex | None":
        """The index a file holds, or None when it breaks the invariant: then rebuild it."""
        index = cls(base_offset)
        return index if index.pairs.load(data) else None
