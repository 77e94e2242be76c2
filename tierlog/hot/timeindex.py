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
    __slots__ = ("_pairs", "base_offset")

    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self._pairs = RisingPairs(ENTRY)

    def __len__(self) -> int:
        return len(self._pairs)

    def maybe_append(self, timestamp: TimestampMs, last_offset: Offset) -> None:
        """Add an entry if it says something new: a larger maximum, further on."""
        relative = last_offset - self.base_offset
        last_timestamp, last_relative = self._pairs.last
        if timestamp > last_timestamp and relative > last_relative:
            self._pairs.append(timestamp, relative)

    def before(self, timestamp: TimestampMs) -> TimeEntry | None:
        """The last entry whose timestamp is smaller: what is sought lies behind its offset."""
        return self._entry(self._pairs.count_at_most(timestamp - 1, column=0))

    def before_offset(self, offset: Offset) -> TimeEntry | None:
        """The last entry of a batch that ends before `offset`."""
        return self._entry(self._pairs.count_at_most(offset - self.base_offset - 1, column=1))

    def _entry(self, count: int) -> TimeEntry | None:
        if not count:
            return None
        found, relative = self._pairs.pair(count - 1)
        return TimeEntry(TimestampMs(found), Offset(self.base_offset + relative))

    def truncate(self, offset: Offset) -> None:
        """Forget entries at `offset` and after it."""
        self._pairs.keep(self._pairs.count_at_most(offset - self.base_offset - 1, column=1))

    def to_bytes(self) -> bytes:
        return self._pairs.to_bytes()

    @classmethod
    def from_bytes(cls, base_offset: Offset, data: Bytes) -> "TimeIndex | None":
        """The index a file holds, or None when it breaks the invariant: then rebuild it."""
        index = cls(base_offset)
        return index if index._pairs.load(data) else None
