"""Verified bytes in memory: what a first read fetched, chunks that were not read to their end yet,
and chunks that found no room on the disk.

Bounded, the least recently used go first. A piece may stay longer where a read is using it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.fetchproxy.pieces import HeldPiece
    from tierlog.objectstore.port import Span
    from tierlog.types import Position


class Held:
    """Invariant: `used <= limit`."""

    def __init__(
        self, limit: int, *, on_gone: Callable[[str, Span], None] = lambda _key, _span: None
    ) -> None:
        """`on_gone` hears of what had to make room, and of what found none."""
        self.limit = limit
        self._on_gone = on_gone
        self.used = 0
        self.used_peak = 0
        self._pieces: OrderedDict[tuple[str, Span], HeldPiece] = OrderedDict()

    def put(self, key: str, piece: HeldPiece) -> None:
        """Of the object `key`. What is larger than the limit is not held."""
        name = (key, piece.span)
        if name in self._pieces:
            return
        if piece.span.size > self.limit:
            self._on_gone(key, piece.span)
            return
        while self.used + piece.span.size > self.limit:
            (gone, span), _ = self._pieces.popitem(last=False)
            self.used -= span.size
            self._on_gone(gone, span)
        self._pieces[name] = piece
        self.used += piece.span.size
        self.used_peak = max(self.used_peak, self.used)

    def retire(self, key: str, span: Span, *, is_kept: bool) -> None:
        """Read to its end, if it is here at all: it makes room before what was not read. What the
        disk has as well makes room at once."""
        if (key, span) not in self._pieces:
            return
        if is_kept:
            del self._pieces[key, span]
            self.used -= span.size
        else:
            self._pieces.move_to_end((key, span), last=False)

    def find(self, key: str, start: Position, end: Position) -> HeldPiece | None:
        """One that has all of [start, end). They are few: a quarter of the memory in MiB."""
        for name, piece in reversed(self._pieces.items()):
            if name[0] == key and piece.span.start <= start and end <= piece.span.end:
                self._pieces.move_to_end(name)
                return piece
        return None
