"""Which partition a record goes to, as Kafka's own clients decide.

A key is hashed by murmur2, so that every client sends it to the same partition. Records without a
key stick to one partition until a batch is complete (KIP-480): fuller batches, same spread.
"""

from struct import Struct
from typing import Protocol

from tierlog.types import Bytes

_WORD = Struct("<I")
_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF


class Chance(Protocol):
    """The part of `Rng` that is needed here."""

    def randrange(self, stop: int, /) -> int: ...


def murmur2(data: Bytes) -> int:
    """Kafka's 32-bit murmur2 of `data`, unsigned; Java shows the same bits as a signed int."""
    size = len(data)
    whole = size & ~3
    state = _SEED ^ size
    for (word,) in _WORD.iter_unpack(memoryview(data)[:whole]):
        word = word * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR
        state = (state * _FACTOR ^ word) & _MASK
    if size != whole:
        # The last one to three bytes, little-endian like the words before them.
        state = (state ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    state = (state ^ state >> 13) * _FACTOR & _MASK
    return state ^ state >> 15


def partition_of_key(key: Bytes, partition_count: int) -> int:
    # Java clears the sign bit rather than take the absolute value, which the least int has not.
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class RoundRobin:
    """Each record to the next partition, whatever its key."""

    __slots__ = ("_next",)

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def choose(self, key: Bytes | None, partition_count: int) -> int:
        chosen = self._next % partition_count
        self._next = chosen + 1
        return chosen


class Sticky:
    """All records to one partition, drawn by chance, until `batch_completed` draws another."""

    __slots__ = ("_chance", "_current")

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._current = -1

    def choose(
        self, key: Bytes | None, partition_count: int, available: list[int] | None = None
    ) -> int:
        """`available` lists the partitions that have a leader; where none has, all count."""
        candidates = available or range(partition_count)
        if self._current not in candidates:
            self._current = candidates[self._chance.randrange(len(candidates))]
        return self._current

    def batch_completed(self, partition_count: int, available: list[int] | None = None) -> None:
        """Move on to another partition, if there is another."""
        candidates = available or range(partition_count)
        others = [partition for partition in candidates if partition != self._current]
        if others:
            self._current = others[self._chance.randrange(len(others))]


class Keyed:
    """Records with a key by its hash, the others sticky: the default of Kafka's clients."""

    __slots__ = ("sticky",)

    def __init__(self, chance: Chance) -> None:
        self.sticky = Sticky(chance)

    def choose(
        self, key: Bytes | None, partition_count: int, available: list[int] | None = None
    ) -> int:
        if key is None:
            return self.sticky.choose(key, partition_count, available)
        return partition_of_key(key, partition_count)

    def batch_completed(self, partition_count: int, available: list[int] | None = None) -> None:
        self.sticky.batch_completed(partition_count, available)
