"""Where the last record of every key stands: what a cleaning must know, in bounded memory.

Keys are remembered by a digest of 128 bits, as in Kafka: however long a key is, it takes the same
room. BLAKE2b, since whoever could make two keys collide could delete another one's record. When
the map is full a cleaning goes as far as the map does, and another round takes the rest.
"""

from hashlib import blake2b

from tierlog.types import Offset

DIGEST_BYTES = 16
ENTRY_BYTES = 200
"""Digest 64, offset 32, and the table's share, twice while it grows: measured, see its test."""

NOWHERE = Offset(-1)


class KeyMap:
    __slots__ = ("_count_max", "_offsets")

    def __init__(self, bytes_max: int) -> None:
        self._count_max = max(bytes_max // ENTRY_BYTES, 1)
        self._offsets: dict[bytes, Offset] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room(self, count: int) -> bool:
        """Whether so many keys fit that may all be new. Into an empty map anything goes: a batch
        larger than the map must not stop the cleaning for ever."""
        return not self._offsets or len(self._offsets) + count <= self._count_max

    def note(self, key: bytes, offset: Offset) -> None:
        self._offsets[digest(key)] = offset

    def last(self, key: bytes) -> Offset:
        """The last noted place of the key; -1 if there is none."""
        return self._offsets.get(digest(key), NOWHERE)


def digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
