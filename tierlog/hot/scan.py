"""Reading a segment's batches in order, and finding the way again after damage.

`scan` walks batches, checks each (CRC, lengths, the offset expected at that place) and stops at the
first that is not sound, saying why. `resync` finds the next sound batch behind a bad place. Both
read in large pieces and hold one piece, or one batch, in memory.
"""

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from tierlog.env import File
from tierlog.records.batch import HEADER_BYTES, PREFIX_BYTES, parse_header, validate_stored
from tierlog.records.errors import CorruptBatch, TruncatedBatch
from tierlog.records.header import MAGIC, BatchHeader
from tierlog.types import Bytes, Offset, Position

PIECE_BYTES = 4 << 20
BATCH_BYTES_MAX = 101 << 20  # A frame has at most 100 MiB, so no batch is larger.
MAGIC_AT = 16
OFFSET = Struct(">q")
MAGIC_BYTE = b"\x02"

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
        return Scanned(Position(at + position), Offset(expected), fault)
    return Scanned(Position(at + position), Offset(expected), None)


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


def resync(
    file: File, *, start: Position, end: Position, floor: Offset, ceiling: Offset
) -> tuple[Position, BatchHeader] | None:
    """The next sound batch behind the bad one at `start`, with an offset in (floor, ceiling).

    If the bad batch's own length leads to a sound batch, that is the one: a record may contain
    whole batches as its value, and they must not be taken for the log's own.
    """
    follower = _follower(file, start=start, end=end, floor=floor, ceiling=ceiling)
    if follower is not None:
        return follower
    position = Position(start + 1)
    while position + HEADER_BYTES <= end:
        piece = file.pread(min(PIECE_BYTES, end - position), position)
        found = piece.find(MAGIC_BYTE, MAGIC_AT)
        while found >= 0:
            # A look at the offset first: a value may hold nothing but magic bytes, and a read of
            # the disk for each would take minutes a segment.
            (offset,) = OFFSET.unpack_from(piece, found - MAGIC_AT)
            if floor < offset < ceiling:
                candidate = Position(position + found - MAGIC_AT)
                header = _sound_at(file, candidate, end=end, floor=floor, ceiling=ceiling)
                if header is not None:
                    return candidate, header
            found = piece.find(MAGIC_BYTE, found + 1)
        # The next piece begins early enough to see a header that straddles the border.
        position = Position(position + max(1, len(piece) - MAGIC_AT))
    return None


def _follower(
    file: File, *, start: Position, end: Position, floor: Offset, ceiling: Offset
) -> tuple[Position, BatchHeader] | None:
    data = file.pread(HEADER_BYTES, start)
    if len(data) < HEADER_BYTES:
        return None
    bad = parse_header(data)
    position = Position(start + bad.size_bytes)
    if bad.size_bytes < HEADER_BYTES:
        return None
    header = _sound_at(file, position, end=end, floor=floor, ceiling=ceiling)
    return None if header is None else (position, header)


def _sound_at(
    file: File, position: Position, *, end: Position, floor: Offset, ceiling: Offset
) -> BatchHeader | None:
    data = file.pread(HEADER_BYTES, position)
    if len(data) < HEADER_BYTES:
        return None
    header = parse_header(data)
    size = header.size_bytes
    if not (
        floor < header.base_offset < ceiling
        and header.last_offset < ceiling
        and HEADER_BYTES <= size <= min(BATCH_BYTES_MAX, end - position)
    ):
        return None
    try:
        return validate_stored(file.pread(size, position))
    except CorruptBatch:
        return None


def seen_end(file: File, *, start: Position, end: Position, floor: Offset) -> Offset:
    """The offset behind the last one that headers in [start, end) speak of, sound or not.

    A tail that is cut may hold batches that somebody was told of: their offsets are not given out
    again. A header counts if it continues the log plausibly, one wrong field forgiven.
    """
    seen = floor
    position = start
    while position + HEADER_BYTES <= end:
        header = parse_header(file.pread(HEADER_BYTES, position))
        count = _claimed_count(header, expected=seen)
        if count == 0:
            break
        seen = Offset(seen + count)
        position = Position(position + max(header.size_bytes, HEADER_BYTES))
    return seen


def _claimed_count(header: BatchHeader, *, expected: Offset) -> int:
    """How many offsets a header that may be damaged claims; 0 if it does not look like one."""
    size_fits = HEADER_BYTES <= header.size_bytes <= BATCH_BYTES_MAX
    counts = {header.last_offset_delta + 1, header.record_count}
    votes = (
        (header.magic == MAGIC)
        + (header.base_offset == expected)
        + size_fits
        + (len(counts) == 1 and header.record_count >= 1)
    )
    if votes < 3:
        return 0
    if len(counts) == 1:
        return max(1, header.record_count)
    # One of the two is wrong: take the larger, if so many records could stand in the bytes.
    count_max = header.size_bytes if size_fits else BATCH_BYTES_MAX
    return max((count for count in counts if 1 <= count <= count_max), default=1)


def visit_sound(
    file: File,
    *,
    base_offset: Offset,
    next_offset: Offset,
    size: Position,
    contiguous: bool,
    visit: Visit,
) -> None:
    """Visit every sound batch of a segment, stepping over what is damaged."""
    position, expected = Position(0), base_offset
    while position < size:
        state = scan(
            file, start=position, end=size, expected=expected, contiguous=contiguous, visit=visit
        )
        found = resync(
            file, start=state.position, end=size, floor=state.next_offset, ceiling=next_offset
        )
        if found is None:
            return
        position, expected = found[0], found[1].base_offset
