"""A packed table of number pairs that rise strictly in both columns.

The shape that the offset index and the time index share: fixed-width big-endian entries. Kept
twice, as the very bytes that the file holds and as two arrays that bisect quickly: 24 to 28 bytes
an entry, under a MiB for a segment of 128 MiB.
"""

from array import array
from bisect import bisect_right
from struct import Struct

from tierlog.types import Bytes


class RisingPairs:
    __slots__ = ("_columns", "_data", "_entry", "_last")

    def __init__(self, entry: Struct) -> None:
        self._entry = entry
        self._data = bytearray()
        self._columns = (array("q"), array("q"))
        self._last = (-1, -1)

    def __len__(self) -> int:
        return len(self._columns[0])

    @property
    def last(self) -> tuple[int, int]:
        """The last pair; (-1, -1) when there is none, so that anything may follow."""
        return self._last

    def append(self, first: int, second: int) -> None:
        before = self._last
        assert first > before[0]
        assert second > before[1]
        self._last = (first, second)
        self._data += self._entry.pack(first, second)
        firsts, seconds = self._columns
        firsts.append(first)
        seconds.append(second)

    def pair(self, number: int) -> tuple[int, int]:
        return self._columns[0][number], self._columns[1][number]

    def count_at_most(self, value: int, *, column: int) -> int:
        """How many pairs have at most `value` in the column."""
        return bisect_right(self._columns[column], value)

    def keep(self, count: int) -> None:
        """Forget all but the first `count` pairs."""
        del self._data[count * self._entry.size :]
        del self._columns[0][count:], self._columns[1][count:]
        self._last = self.pair(count - 1) if count else (-1, -1)

    def to_bytes(self) -> bytes:
        return bytes(self._data)

    def load(self, data: Bytes) -> bool:
        """Take over what a file holds. False, and unchanged, when it does not rise."""
        if len(data) % self._entry.size:
            return False
        pairs = list(self._entry.iter_unpack(data))
        before = (-1, -1)
        for pair in pairs:
            if pair[0] <= before[0] or pair[1] <= before[1]:
                return False
            before = pair
        self._data = bytearray(data)
        self._columns = (
            array("q", [one for one, _ in pairs]),
            array("q", [two for _, two in pairs]),
        )
        self._last = before
        return True
