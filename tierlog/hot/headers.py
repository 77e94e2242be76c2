"""Walking the headers of a segment, one piece of the file at a time.

A walk goes from batch to batch by their lengths and believes a header only if it continues the
walk: its size fits, and its offsets follow. One that does not ends the walk; whoever walks then
goes by checked batches. Pieces are about as long as two index entries lie apart, so that looking an
offset up costs one read. For use within one call: a piece does not see later writes.
"""

from struct import Struct

from tierlog.hot.segment import Segment
from tierlog.records.header import HEADER_BYTES, PREFIX_BYTES, BatchHeader, parse_header
from tierlog.types import Offset, Position

PIECE_BYTES = 8 << 10
LENGTH_MIN = HEADER_BYTES - PREFIX_BYTES

unpack_place = Struct(">qi11xi").unpack_from
"""Base offset, length and last offset delta of a header: all that finding a place needs."""


class HeaderWalk:
    __slots__ = ("_piece", "_segment", "_start")

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._piece = b""
        self._start = 0

    def peek(self, position: Position) -> BatchHeader | None:
        """What stands at `position`, taken for a header; None where the file is too short."""
        place = self._place(position)
        return None if place is None else parse_header(self._piece, place)

    def at(self, position: Position, expected: Offset) -> BatchHeader | None:
        """The header of the next batch of a walk, or None if it does not continue the walk."""
        header = self.peek(position)
        if header is None or not self._continues(
            position, expected, header.base_offset, header.length, header.last_offset_delta
        ):
            return None
        return header

    def seek(
        self, offset: Offset, position: Position, expected: Offset
    ) -> tuple[Position, Offset] | None:
        """From the batch at `position` to the one that holds `offset`, or the first behind it.

        None if a header on the way does not continue the walk.
        """
        size = self._segment.size
        while position < size:
            place = self._place(position)
            if place is None:
                return None
            base_offset, length, delta = unpack_place(self._piece, place)
            if not self._continues(position, expected, base_offset, length, delta):
                return None
            if base_offset + delta >= offset:
                break
            position = Position(position + length + PREFIX_BYTES)
            expected = Offset(base_offset + delta + 1)
        return position, expected

    def _place(self, position: Position) -> int | None:
        """Where in the piece the header at `position` begins."""
        place = position - self._start
        if 0 <= place <= len(self._piece) - HEADER_BYTES:
            return place
        # Never beyond the segment: behind it an append may be under way, or a torn one lie.
        size = min(PIECE_BYTES, max(HEADER_BYTES, self._segment.size - position))
        self._piece = self._segment.file().pread(size, position)
        self._start = position
        return 0 if len(self._piece) >= HEADER_BYTES else None

    def _continues(
        self, position: Position, expected: Offset, base_offset: int, length: int, delta: int
    ) -> bool:
        return (
            length >= LENGTH_MIN
            and position + length + PREFIX_BYTES <= self._segment.size
            and delta >= 0
            and (
                base_offset == expected or (base_offset > expected and not self._segment.contiguous)
            )
        )
