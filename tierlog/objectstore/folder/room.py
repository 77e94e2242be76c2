"""Room on the disk of a folder store: it stops before the disk is full.

By default the folder lies beside the data, on one disk: objects that took its last byte would take
it from the log, and a log that cannot write a checkpoint stops the node. So objects leave a floor
of free bytes, and small ones, which manifests are, half of that: what is uploaded must still be
published, or nothing could leave the data directory.

Counted with what is being written at the moment, in full: rather too much than too little.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tierlog.env import Disk, Tally
from tierlog.objectstore.errors import StoreFull

SMALL_BYTES_MAX = 1 << 20
"""Manifests and pages are smaller, segments larger, where it matters."""


FloorOf: TypeAlias = Callable[[int], int]
"""How many bytes of a disk of so many stay free."""


def no_floor(total_bytes: int) -> int:
    """The disk itself says when it is full."""
    return 0


class Room:
    def __init__(self, disk: Disk, path: str, *, floor_of: FloorOf) -> None:
        self._disk = disk
        self._path = path
        self._floor_of = floor_of
        self._taken = Tally()
        """Bytes that are being written."""

    @contextmanager
    def taken(self, key: str, size: int) -> Iterator[None]:
        """Keep room for `size` bytes while they are written. Raises `StoreFull`."""
        self._take(key, size)
        try:
            yield
        finally:
            self._taken.add(-size)

    def _take(self, key: str, size: int) -> None:
        floor = self._floor_of(self._disk.total_bytes(self._path))
        if size <= SMALL_BYTES_MAX:
            floor //= 2
        free = self._disk.free_bytes(self._path)
        if free - self._taken.add(size) < floor and floor:
            self._taken.add(-size)
            raise StoreFull(
                f"no room for {key} of {size} bytes: the disk of {self._path} has {free} bytes "
                f"free and keeps {floor}; give it more room, or delete what nobody needs"
            )
