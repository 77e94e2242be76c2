"""The `.log` file of one segment: batches end to end, nothing between them.

Appends go to the end and are whole or not at all: a write that the disk cuts short leaves the size
where it was, and the next append overwrites the rest. Blocks are reserved ahead of the writes in
growing steps, so that a segment lies in few extents, a full disk is met before a batch is half
written, and a thousand idle partitions do not each hold a whole segment's space.
"""

import errno
from contextlib import suppress
from typing import Protocol

from tierlog.env import File
from tierlog.hot.errors import DiskFull
from tierlog.types import Bytes, Position

RESERVE_STEP_MIN = 1 << 20
RESERVE_STEP_MAX = 32 << 20


class Space(Protocol):
    """Who answers for the free space of the disk."""

    def claim(self, size: int) -> None:
        """Raise `DiskFull` when `size` more bytes would eat into the reserve."""
        ...


class Store:
    __slots__ = ("_file", "_reserved", "_space", "size", "size_max")

    def __init__(self, file: File, *, size: Position, size_max: int, space: Space) -> None:
        self._file = file
        self._space = space
        self._reserved = 0
        self.size = size
        self.size_max = size_max

    def append(self, batch: Bytes, size: int) -> Position:
        """Write the batch behind the last one and return its position."""
        position = self.size
        end = position + size
        if end > self._reserved:
            self._reserve(end)
        try:
            written = self._file.pwrite(batch, position)
            if written != size:
                self._finish(memoryview(batch), written)
        except OSError as fault:
            self._cut_back()
            raise refused(fault) from fault
        self.size = Position(end)
        return position

    def _finish(self, batch: memoryview, written: int) -> None:
        """Write the rest after a short write: a signal came, or the last free block is near."""
        while written < len(batch):
            written += self._file.pwrite(batch[written:], self.size + written)

    def _cut_back(self) -> None:
        # Half a batch must not stay behind a shorter one that is appended next: after a crash it
        # would look like damage. If this fails too, recovery sorts it out.
        with suppress(OSError):
            self._file.truncate(self.size)
        self._reserved = 0

    def _reserve(self, end: int) -> None:
        step = min(max(end, RESERVE_STEP_MIN), RESERVE_STEP_MAX)
        target = max(end, min(end + step, self.size_max))
        self._space.claim(target - self.size)
        try:
            self._file.fallocate(target)
        except OSError as fault:
            raise refused(fault) from fault
        self._reserved = target


def refused(fault: OSError) -> Exception:
    """What a full disk is called in this room; other faults stay what they are."""
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk is full: {fault}")
    return fault
