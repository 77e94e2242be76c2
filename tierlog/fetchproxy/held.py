"""Verified bytes that no disk holds: what a first read fetched, chunks that found no room there.

Bounded, the least recently used go first. A piece may stay longer where a read is using it.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING

from tierlog.fetchproxy.pieces import HeldPiece
from tierlog.types import Position

if TYPE_CHECKING:
    from tierlog.objectstore.port import Span


class Held:
    """Invariant: `used <= limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.used_peak = 0
        self._pieces: OrderedDict[tuple[str, Span], HeldPiece] = OrderedDict()

    def put(self, key: str, piece: HeldPiece) -> None:
        """Of the object `key`. What is larger than the limit is not held."""
        name = (key, piece.span)
        if name in self._pieces or piece.span.size > self.limit:
            return
        while self.used + piece.span.size > self.limit:
            (_, span), _ = self._pieces.popitem(last=False)
            self.used -= span.size
        self._pieces[name] = piece
        self.used += piece.span.size
        self.used_peak = max(self.used_peak, self.used)

    def find(self, key: str, start: Position, end: Position) -> HeldPiece | None:
        """One that has all of [start, end). They are few: a quarter of the memory in MiB."""
        for name, piece in reversed(self._pieces.items()):
            if name[0] == key and piece.span.start <= start and end <= piece.span.end:
                self._pieces.move_to_end(name)
                return piece
        return None
