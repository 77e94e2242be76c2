"""A packed table of number pairs that rise strictly in both columns.

The shape that the offset index and the time index share: fixed-width big-endian entries, found by
bisection, kept as the very bytes that the file holds.
"""

from bisect import bisect_right
from struct import Struct

from tierlog.types import Bytes


class RisingPairs:
    __slots__ = ("_data", "_entry", "_last")

    def __init__(self, entry: Struct) -> None:
        self._entry = entry
        self._data = bytearray()
        self._last = (-1, -1)

    def __len__(self) -> int:
        return len(self._data) // self._entry.size

    @property
    def last(self) -> tuple[int, int]:
        """The last pair; (-1, -1) when there is none, so that anything may follow."""
        return self._last

    def append(self, first: int, second: int) -> None:
        assert first > self._last[0]
        assert second > self._last[1]
        self._data += self._entry.pack(first, second)
        self._last = (first, second)

    def pair(self, number: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(self._data, number * self._entry.size)
        return first, second

    def count_at_most(self, value: int, *, column: int) -> int:
        """How many pairs have at most `value` in the column."""
        return bisect_right(range(len(self)), value, key=lambda number: self.pair(number)[column])

    def keep(self, count: int) -> None:
        """Forget all but the first `count` pairs."""
        del self._data[count * self._entry.size :]
        self._last = self.pair(count - 1) if count else (-1, -1)

    def to_bytes(self) -> bytes:
        return bytes(self._data)

    def load(self, data: Bytes) -> bool:
        """Take over what a file holds. False, and empty, when it does not rise."""
        if len(data) % self._entry.size:
            return False
        before = (-1, -1)
        for first, second in self._entry.iter_unpack(data):
            if first <= before[0] or second <= before[1]:
                return False
            before = (first, second)
        self._data = bytearray(data)
        self._last = before
        return True
