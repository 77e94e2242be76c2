"""The `.log` file of one segment: batches end to end, nothing between them.

Appends go to the end and are whole or not at all: a write that the disk cuts short leaves the size
where it was, and the next append overwrites the rest. Blocks are reserved ahead of the writes in
growing steps, so that a segment lies in few extents, a full disk is met before a batch is half
written, and a thousand idle partitions do not each hold a whole segment's space.

The file is pinned in the pool from the first append after a sync until `release`: an idle
partition holds no open file.
"""

import errno
from contextlib import suppress
from typing import Protocol

from tierlog.env import File
from tierlog.hot.errors import DiskFull
from tierlog.hot.files import refused_file
from tierlog.types import Bytes, Position

RESERVE_STEP_MIN = 1 << 20
RESERVE_STEP_MAX = 32 << 20


class Space(Protocol):
    """Who answers for the free space of the disk."""

    def claim(self, size: int) -> None:
        """Raise `DiskFull` when `size` more bytes would eat into the reserve."""
        ...


class Files(Protocol):
    """Who opens the file and keeps it open."""

    def pin(self, path: str, *, create: bool = False) -> File: ...

    def unpin(self, path: str) -> None: ...


class Store:
    __slots__ = ("_path", "_pool", "_reserved", "_space", "size", "size_max", "unsynced")

    def __init__(
        self, pool: Files, path: str, *, size: Position, size_max: int, space: Space
    ) -> None:
        self.unsynced: File | None = None
        """The file, while it has appends that no sync has covered yet."""
        self._pool = pool
        self._path = path
        self._space = space
        self._reserved = 0
        self.size = size
        self.size_max = size_max

    @property
    def has_reserve(self) -> bool:
        """Whether blocks beyond the last batch are reserved."""
        return self._reserved > self.size

    def append(self, batch: Bytes, size: int) -> Position:
        """Write the batch behind the last one and return its position."""
        file = self.unsynced
        if file is None:
            return self._append_first(batch, size)
        position = self.size
        end = position + size
        if end > self._reserved:
            self._reserve(file, end)
        try:
            written = file.pwrite(batch, position)
            if written != size:
                self._finish(file, memoryview(batch), written)
        except OSError as fault:
            self._cut_back(file)
            raise refused(fault) from fault
        self.size = Position(end)
        return position

    def _append_first(self, batch: Bytes, size: int) -> Position:
        """The first append since a sync: only one that succeeds leaves the file pinned."""
        self.pin()
        try:
            return self.append(batch, size)
        except BaseException:
            self.release()
            raise

    def pin(self, *, create: bool = False) -> File:
        """The file, open until `release`."""
        file = self.unsynced = self._pool.pin(self._path, create=create)
        return file

    def release(self) -> None:
        """Everything is synced: the pool may close the file."""
        self.unsynced = None
        self._pool.unpin(self._path)

    def _finish(self, file: File, batch: memoryview, written: int) -> None:
        """Write the rest after a short write: a signal came, or the last free block is near."""
        while written < len(batch):
            written += file.pwrite(batch[written:], self.size + written)

    def _cut_back(self, file: File) -> None:
        # Half a batch must not stay behind a shorter one that is appended next: after a crash it
        # would look like damage. If this fails too, recovery sorts it out.
        with suppress(OSError):
            file.truncate(self.size)
        self._reserved = 0

    def _reserve(self, file: File, end: int) -> None:
        step = min(max(end, RESERVE_STEP_MIN), RESERVE_STEP_MAX)
        target = max(end, min(end + step, self.size_max))
        try:
            self._claim(file, target)
        except DiskFull:
            if target == end:
                raise
            self._claim(file, end)  # Not a whole step any more, but this batch.

    def _claim(self, file: File, target: int) -> None:
        self._space.claim(target - max(self.size, self._reserved))
        try:
            file.fallocate(target)
        except OSError as fault:
            raise refused(fault) from fault
        self._reserved = target


def refused(fault: OSError) -> Exception:
    """What a full disk, or too many files, is called here; other faults stay what they are."""
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk is full: {fault}")
    return refused_file(fault)
