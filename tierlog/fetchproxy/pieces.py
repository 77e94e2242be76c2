"""Verified bytes of one segment object, wherever they are: in a cached file or in memory.

A file stays open as long as somebody holds its piece, and what was taken from it as long as
somebody holds that, evicted or not: unlinking takes the name alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tierlog.env import File, may_lend
from tierlog.objectstore.port import Span
from tierlog.types import Bytes, Position

if TYPE_CHECKING:
    from tierlog.fetchproxy.clients import Reader


_NOTHING = memoryview(b"")


class Piece(Protocol):
    """Positions are those of the object."""

    @property
    def span(self) -> Span: ...

    @property
    def memory(self) -> memoryview:
        """All of it, to be looked at; nothing of what lies in a file."""
        ...

    def pread(self, size: int, position: int) -> Bytes:
        """To be looked at."""
        ...

    def view(self, size: int, position: int) -> Bytes:
        """To be sent and not looked at; holds no memory of the proxy's but of what is plentiful."""
        ...

    def is_cached(self, size: int, position: int) -> bool:
        """Whether sending a view would not wait for the disk."""
        ...


class FilePiece:
    __slots__ = ("_file", "_start", "memory", "span")

    def __init__(self, span: Span, file: File) -> None:
        self.span = span
        self.memory = _NOTHING
        self._start = span.start
        self._file = file

    def __del__(self) -> None:
        # Not by `weakref.finalize`: its registry would hold the file, and all that a simulated one
        # knows, for as long as the piece lives, which is for ever where they hold each other.
        self._file.close()

    def pread(self, size: int, position: int) -> Bytes:
        return self._file.pread(size, position - self._start)

    def view(self, size: int, position: int) -> Bytes:
        return self._file.view(size, position - self._start)

    def is_cached(self, size: int, position: int) -> bool:
        return self._file.is_cached(size, position - self._start)


class HeldPiece:
    __slots__ = ("memory", "reader", "span")

    def __init__(self, span: Span, data: Bytes) -> None:
        self.span = span
        self.reader: Reader | None = None
        """Who read of it last, while it is on its way to the disk."""
        self.memory = memoryview(data)

    def pread(self, size: int, position: int) -> Bytes:
        start = position - self.span.start
        return self.memory[start : start + size]

    def view(self, size: int, position: int) -> Bytes:
        # Else a copy: a slice would keep all of the piece in memory until a slow consumer has it.
        part = self.pread(size, position)
        return part if may_lend(self.memory) else bytes(part)

    def is_cached(self, size: int, position: int) -> bool:
        return True


class Run:
    """Pieces that touch each other, in order, as one."""

    __slots__ = ("end", "pieces", "start")

    def __init__(self, pieces: Sequence[Piece]) -> None:
        assert pieces
        self.pieces = pieces
        self.start = pieces[0].span.start
        self.end = pieces[-1].span.end

    def pread(self, size: int, position: int) -> Bytes:
        """Fewer bytes only at the end."""
        parts = []
        for piece in self.pieces:
            if piece.span.start <= position < piece.span.end and size > 0:
                part = piece.pread(min(size, piece.span.end - position), position)
                parts.append(part)
                position += len(part)
                size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def in_memory(self) -> tuple[memoryview, Position]:
        """The bytes of the first piece, and where they begin; none where they lie in a file."""
        first = self.pieces[0]
        return first.memory, first.span.start

    def is_cached(self, size: int, position: int) -> bool:
        """Whether reading as much would not wait for the disk."""
        end = min(position + size, self.end)
        for piece in self.pieces:
            start, stop = max(position, piece.span.start), min(end, piece.span.end)
            if start < stop and not piece.is_cached(stop - start, start):
                return False
        return True

    def piece_at(self, position: int) -> Piece:
        return next(piece for piece in self.pieces if position < piece.span.end)

    def pieces_of(self, start: int, stop: int) -> Sequence[Piece]:
        """Those that [start, stop) lies in, no more than are needed: they may overlap."""
        if stop <= self.pieces[0].span.end:
            return self.pieces[:1]
        found = []
        for piece in self.pieces:
            if start < min(piece.span.end, stop):
                found.append(piece)
                start = piece.span.end
        return found

    def covers(self, start: Position, end: Position) -> bool:
        return self.start <= start and end <= self.end
