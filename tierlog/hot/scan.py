"""Reading a segment's batches in order.

`scan` walks batches, checks each (CRC, lengths, the offset expected at that place) and stops at the
first that is not sound, saying why. It reads in large pieces and holds one piece, or one batch, in
memory. What may stand behind a bad batch is `resync`'s business.
"""

from collections.abc import Callable
from typing import NamedTuple

from tierlog.env import File
from tierlog.records.batch import PREFIX_BYTES, validate_stored
from tierlog.records.errors import CorruptBatch, TruncatedBatch
from tierlog.records.header import BatchHeader
from tierlog.types import Bytes, Offset, Position

PIECE_BYTES = 4 << 20
BATCH_BYTES_MAX = 101 << 20  # A frame has at most 100 MiB, so no batch is larger.

Visit = Callable[[BatchHeader, Position], None]


class Misplaced(CorruptBatch):
    """A whole batch, but not the one whose offset belongs here."""


class Scanned(NamedTuple):
    """Where a scan ended: at the end, or at `fault`."""

    position: Position
    next_offset: Offset
    fault: CorruptBatch | None


def walk(
    piece: Bytes, *, at: int, expected: int, contiguous: bool, visit: Visit | None = None
) -> Scanned:
    """Check the batches of `piece`, which lies at position `at` of its file."""
    position = 0
    size = len(piece)
    try:
        while position < size:
            header = validate_stored(piece, position)
            base_offset = header[0]
            if base_offset != expected and (contiguous or base_offset < expected):
                raise _misplaced(header, at + position, expected)
            if visit is not None:
                visit(header, Position(at + position))
            position += header[1] + PREFIX_BYTES
            expected = base_offset + header[6] + 1
    except CorruptBatch as fault:
        return Scanned(Position(at + position), Offset(expected), _moved(fault, at))
    return Scanned(Position(at + position), Offset(expected), None)


def _moved(fault: CorruptBatch, at: int) -> CorruptBatch:
    """The fault of a batch in a piece, as one of the file that the piece lies in."""
    if at and not isinstance(fault, Misplaced):
        here, there = f"position {fault.position}", f"position {fault.position + at}"
        fault.args = (str(fault).replace(here, there, 1), *fault.args[1:])
        fault.position += at
    return fault


def _misplaced(header: BatchHeader, position: int, expected: int) -> Misplaced:
    return Misplaced(
        f"batch at position {position} says offset {header.base_offset}, expected {expected}",
        position=position,
    )


def scan(
    file: File,
    *,
    start: Position,
    end: Position,
    expected: Offset,
    contiguous: bool = True,
    visit: Visit | None = None,
) -> Scanned:
    """Check the batches of [start, end) of the file, the first of which has offset `expected`."""
    piece = memoryview(bytearray(min(PIECE_BYTES, end - start)))
    state = Scanned(start, expected, None)
    while state.position < end:
        view = piece[: end - state.position]
        got = file.pread_into(view, state.position)
        before = state.position
        state = walk(
            view[:got],
            at=before,
            expected=state.next_offset,
            contiguous=contiguous,
            visit=visit,
        )
        if state.fault is None and got == len(view):
            continue
        needed = state.fault.needed if isinstance(state.fault, TruncatedBatch) else 0
        if not needed or state.position + needed > end or needed > BATCH_BYTES_MAX:
            return state
        if state.position == before and needed > len(piece):
            piece = memoryview(bytearray(needed))
        elif state.position == before:
            return state  # The file is shorter than its size said: do not spin.
        state = state._replace(fault=None)
    return state
