"""Finding the way again behind a bad batch, and what a bad tail still tells.

A record's value may hold whole batches: a mirrored topic, a dump, an attack. They must not be taken
for the log's own. So a batch found behind a bad one counts only if

- its offset lies ahead, by no more than the bytes between could hold;
- inside the extent that a plausible bad header claims, it is the very one that header announces;
- the run of sound batches that it begins goes on to the end, to zeros, or to a header that
  continues it, as the log's own batches do and the end of a record does not.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from tierlog.env import File
from tierlog.hot.scan import BATCH_BYTES_MAX, PIECE_BYTES, Visit, scan
from tierlog.records.batch import HEADER_BYTES, parse_header, validate_stored
from tierlog.records.errors import CorruptBatch
from tierlog.records.header import MAGIC, BatchHeader
from tierlog.types import Offset, Position

MAGIC_AT = 16
MAGIC_BYTE = b"\x02"
OFFSET = Struct(">q")

JUMP_MAX = 1 << 20
JUMP_PER_BYTE = 16
"""Lost offsets that a gap may span: a million, and more only in many bytes. Records of a batch that
compresses well may take less than a byte each."""


class Search(NamedTuple):
    """What is known of the bad place."""

    file: File
    start: Position
    end: Position
    expected: Offset
    """The offset that should stand at `start`."""
    ceiling: Offset
    """An offset that somebody else holds: what is sought lies below it."""
    extent_end: Position
    """Where the bad batch ends if its header can be believed, else `start`."""
    announced: Offset
    """The offset behind the bad batch, by its header."""


def resync(
    file: File, *, start: Position, end: Position, floor: Offset, ceiling: Offset
) -> tuple[Position, BatchHeader] | None:
    """The next batch of the log behind the bad one at `start`, which should have offset `floor`."""
    search = _look_at_bad(file, start, end, floor, ceiling)
    if search.extent_end > start:
        header = _begins_run(search, search.extent_end)[0]
        if header is not None:
            return search.extent_end, header
    position = Position(start + 1)
    while position + HEADER_BYTES <= end:
        piece = file.pread(min(PIECE_BYTES, end - position), position)
        found = piece.find(MAGIC_BYTE, MAGIC_AT)
        if found < 0:
            # The next piece begins early enough to see a header that straddles the border.
            position = Position(position + max(1, len(piece) - MAGIC_AT))
            continue
        for candidate in _candidates(search, piece, position):
            header, run_end = _begins_run(search, candidate)
            if header is not None:
                return candidate, header
            if run_end > candidate:
                # Batches of a run that is not ours are not ours either: go on behind it.
                position = run_end
                break
        else:
            position = Position(position + max(1, len(piece) - MAGIC_AT))
    return None


def _look_at_bad(
    file: File, start: Position, end: Position, expected: Offset, ceiling: Offset
) -> Search:
    data = file.pread(HEADER_BYTES, start)
    extent_end, announced = start, expected
    if len(data) == HEADER_BYTES:
        bad = parse_header(data)
        count = claimed_count(bad, expected=expected)
        if count and HEADER_BYTES <= bad.size_bytes <= BATCH_BYTES_MAX:
            extent_end = Position(start + bad.size_bytes)
            announced = Offset(expected + count)
    return Search(file, start, end, expected, ceiling, extent_end, announced)


def _candidates(search: Search, piece: bytes, position: Position) -> Iterator[Position]:
    """Places in the piece where a batch with a fitting offset may begin.

    A look at the offset comes first: a value may hold nothing but magic bytes, and a read of the
    disk for each of them would take minutes a segment.
    """
    found = piece.find(MAGIC_BYTE, MAGIC_AT)
    while found >= 0:
        candidate = Position(position + found - MAGIC_AT)
        (offset,) = OFFSET.unpack_from(piece, found - MAGIC_AT)
        if _fits(search, candidate, offset):
            yield candidate
        found = piece.find(MAGIC_BYTE, found + 1)


def _fits(search: Search, candidate: Position, offset: int) -> bool:
    if candidate < search.extent_end and offset != search.announced:
        return False
    jump_max = max(JUMP_MAX, (candidate - search.start) * JUMP_PER_BYTE)
    return search.expected < offset < min(search.ceiling, search.expected + jump_max)


def _begins_run(search: Search, candidate: Position) -> tuple[BatchHeader | None, Position]:
    """The header of the batch at `candidate` if the log goes on there; and where its run ends."""
    header = _sound_at(search, candidate)
    if header is None:
        return None, candidate
    file, end = search.file, search.end
    state = scan(file, start=candidate, end=end, expected=header.base_offset, contiguous=False)
    if _goes_on(file, state.position, end, state.next_offset):
        return header, state.position
    return None, state.position


def _sound_at(search: Search, position: Position) -> BatchHeader | None:
    data = search.file.pread(HEADER_BYTES, position)
    if len(data) < HEADER_BYTES:
        return None
    header = parse_header(data)
    if not (
        _fits(search, position, header.base_offset)
        and header.last_offset < search.ceiling
        and HEADER_BYTES <= header.size_bytes <= min(BATCH_BYTES_MAX, search.end - position)
    ):
        return None
    try:
        return validate_stored(search.file.pread(header.size_bytes, position))
    except CorruptBatch:
        return None


def _goes_on(file: File, position: Position, end: Position, expected: Offset) -> bool:
    """Whether a run of the log may end here: at the end, before zeros, before its next batch."""
    data = file.pread(min(HEADER_BYTES, end - position), position)
    if 0 < len(data) < OFFSET.size:
        return False  # A record without headers ends with a zero byte, like a value's last batch.
    if not any(data):
        return True
    if len(data) < HEADER_BYTES:
        # Too short for a header: the first bytes of one, cut off, begin with the next offset.
        return OFFSET.pack(expected).startswith(data[: OFFSET.size])
    return claimed_count(parse_header(data), expected=expected) > 0


def seen_end(file: File, *, start: Position, end: Position, floor: Offset) -> Offset:
    """The offset behind the last one that headers in [start, end) speak of, sound or not.

    A tail that is cut may hold batches that somebody was told of: their offsets are not given out
    again. A header counts if it continues the log plausibly, one wrong field forgiven.
    """
    seen = floor
    position = start
    while position + HEADER_BYTES <= end:
        header = parse_header(file.pread(HEADER_BYTES, position))
        count = claimed_count(header, expected=seen)
        if count == 0:
            break
        seen = Offset(seen + count)
        position = Position(position + max(header.size_bytes, HEADER_BYTES))
    return seen


def claimed_count(header: BatchHeader, *, expected: Offset) -> int:
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
        if state.fault is None:
            return
        found = resync(
            file, start=state.position, end=size, floor=state.next_offset, ceiling=next_offset
        )
        if found is None:
            return
        position, expected = found[0], found[1].base_offset
