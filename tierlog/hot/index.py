"""Sparse offset index of one segment.

Maps an offset to a batch at or before it. Eight bytes an entry, Kafka's layout: last offset of the
batch relative to the segment's base (u32), position of the batch (u32), both big-endian. Not
checksummed: whoever follows an entry compares it with the batch it finds, and rebuilds the index
from the segment when they differ.

Invariant: entries rise strictly in both columns.
"""

from struct import Struct
from typing import NamedTuple

from tierlog.hot.pairs import RisingPairs
from tierlog.types import Bytes, Offset, Position

ENTRY = Struct(">II")


class IndexEntry(NamedTuple):
    last_offset: Offset
    position: Position


class OffsetIndex:
    __slots__ = ("base_offset", "pairs")

    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.pairs = RisingPairs(ENTRY)

    def __len__(self) -> int:
        return len(self.pairs)

    def append(self, last_offset: Offset, position: Position) -> None:
        self.pairs.append(last_offset - self.base_offset, position)

    def at_or_before(self, offset: Offset) -> IndexEntry | None:
        """The entry with the largest last offset that is <= `offset`."""
        return self._entry(self.pairs.count_at_most(offset - self.base_offset, column=0))

    def before_position(self, position: Position) -> IndexEntry | None:
        """The entry with the largest position that is <= `position`."""
        return self._entry(self.pairs.count_at_most(position, column=1))

    def truncate(self, position: Position, offset: Offset) -> None:
        """Forget the batches at `position` and after it, which begin with `offset`."""
        before = self.pairs.count_at_most(offset - self.base_offset - 1, column=0)
        self.pairs.keep(min(before, self.pairs.count_at_most(position - 1, column=1)))

    def to_bytes(self) -> bytes:
        return self.pairs.to_bytes()

    @classmethod
    def from_bytes(cls, base_offset: Offset, data: Bytes) -> "OffsetIndex | None":
        """The index a file holds, or None when it breaks the invariant: then rebuild it."""
        index = cls(base_offset)
        return index if index.pairs.load(data) else None

    def _entry(self, count: int) -> IndexEntry | None:
        if not count:
            return None
        relative, position = self.pairs.pair(count - 1)
        return IndexEntry(Offset(self.base_offset + relative), Position(position))
