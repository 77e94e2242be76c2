"""A sealed segment's file on its way to the bucket: read in pieces, and not left in the page cache.

It is read twice, once to check it and once to send it. Consumers at the tail live on the page
cache, so pieces that were not in it before are given back after the second reading.
"""

from collections.abc import Iterator

from crc32c import crc32c

from tierlog.env import Disk, File
from tierlog.objectstore.body import PIECE_BYTES_MAX
from tierlog.types import Bytes


class SegmentFile:
    """`[start, end)` of a `.log` file. Everything here blocks."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        *,
        start: int,
        end: int,
        uncached: frozenset[int] = frozenset(),
    ) -> None:
        self._disk = disk
        self._path = path
        self._start = start
        self._end = end
        self.uncached = uncached
        """Positions of the pieces that nobody had in the page cache before; `check` finds out."""

    @property
    def size(self) -> int:
        return self._end - self._start

    def check(self) -> Iterator[bytes]:
        """All of it, in order, for the first time."""
        file = self._disk.open(self._path)
        try:
            # All at once: reading one piece brings the next into the cache.
            self.uncached = self._survey(file)
            yield from self._read(file, self._start, self._end, forget=False)
        finally:
            file.close()

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Bytes `[start, end)`, counted from the beginning, for the last time."""
        file = self._disk.open(self._path)
        try:
            yield from self._read(file, self._start + start, self._start + end, forget=True)
        finally:
            file.close()

    def _read(self, file: File, start: int, end: int, *, forget: bool) -> Iterator[bytes]:
        position = start
        while position < end:
            size = min(PIECE_BYTES_MAX - position % PIECE_BYTES_MAX, end - position)
            piece = file.pread(size, position)
            if not piece:
                return  # Shorter than it should be: whoever counts the bytes says so.
            yield piece
            if forget and self.uncached and position - position % PIECE_BYTES_MAX in self.uncached:
                file.forget(size, position)
            position += len(piece)

    def _survey(self, file: File) -> frozenset[int]:
        if file.size() < self._end:
            return frozenset()
        file.view(1, self._end - 1)  # Only what is mapped can be asked for.
        first = self._start - self._start % PIECE_BYTES_MAX
        return frozenset(
            position
            for position in range(first, self._end, PIECE_BYTES_MAX)
            if not file.is_cached(min(PIECE_BYTES_MAX, self._end - position), position)
        )


class SegmentBody:
    """Implements `Body`: batches from the file, then the tail from memory."""

    def __init__(self, file: SegmentFile, tail: bytes, *, crc32c: int) -> None:
        self._file = file
        self._tail = memoryview(tail)
        self.crc32c = crc32c

    @property
    def size(self) -> int:
        return self._file.size + len(self._tail)

    def pieces(self) -> Iterator[Bytes]:
        return self.span(0, self.size)

    def span(self, start: int, end: int) -> Iterator[Bytes]:
        """Bytes `[start, end)` of the object."""
        border = self._file.size
        yield from self._file.pieces(min(start, border), min(end, border))
        place, stop = max(start - border, 0), max(end - border, 0)
        for at in range(place, stop, PIECE_BYTES_MAX):
            yield self._tail[at : min(at + PIECE_BYTES_MAX, stop)]


class PartBody:
    """Implements `Body`: a range of an object that is sent in parts."""

    def __init__(self, whole: SegmentBody, *, start: int, end: int, crc32c: int) -> None:
        self._whole = whole
        self._start = start
        self._end = end
        self.crc32c = crc32c

    @property
    def size(self) -> int:
        return self._end - self._start

    def pieces(self) -> Iterator[Bytes]:
        return self._whole.span(self._start, self._end)


class PartCrcs:
    """CRC-32C of each part of an object that passes by in pieces."""

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes = part_bytes
        self._left = part_bytes
        self._crc = 0
        self._done: list[int] = []

    def feed(self, piece: Bytes) -> None:
        view = memoryview(piece)
        while view:
            part, view = view[: self._left], view[self._left :]
            self._crc = crc32c(part, self._crc)
            self._left -= len(part)
            if not self._left:
                self._done.append(self._crc)
                self._crc, self._left = 0, self._part_bytes

    def finish(self) -> tuple[int, ...]:
        last = () if self._left == self._part_bytes else (self._crc,)
        return (*self._done, *last)
