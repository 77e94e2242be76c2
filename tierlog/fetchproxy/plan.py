"""Which bytes of a segment object a read wants. Pure arithmetic, no I/O.

Positions are those of the object's data part, `[0, data_bytes)`. Chunks are aligned to it, blocks
(what one CRC covers) divide chunks, and both end early where the data ends.
"""

from bisect import bisect_right
from typing import NamedTuple

from tierlog.cold.entry import Entry
from tierlog.fetchproxy.segmentindex import SegmentIndex
from tierlog.objectstore.port import Span
from tierlog.types import Offset, Position


class Place(NamedTuple):
    """Where the batch that holds an offset lies, as far as the index knows."""

    low: Position
    """A batch begins here, at or before the sought one."""
    low_last: Offset
    """That batch's last offset, to be compared; -1 where only its base is known."""
    high: Position
    """The sought batch ends here or before."""


def chunk_span(number: int, *, chunk_bytes: int, data_bytes: int) -> Span:
    start = number * chunk_bytes
    return Span(Position(start), Position(min(start + chunk_bytes, data_bytes)))


def chunk_numbers(span: Span, *, chunk_bytes: int) -> range:
    """Of the chunks that hold a part of `span`, which is not empty."""
    return range(span.start // chunk_bytes, (span.end - 1) // chunk_bytes + 1)


def aligned(span: Span, *, block_bytes: int, data_bytes: int) -> Span:
    """The blocks that hold a part of `span`: what can be checked."""
    start = span.start - span.start % block_bytes
    end = -(-span.end // block_bytes) * block_bytes
    return Span(Position(start), Position(min(end, data_bytes)))


def place_of(index: SegmentIndex, offset: Offset, *, data_bytes: int) -> Place:
    """An index entry is a batch: its last offset and its position.

    The sought batch begins behind the last entry that ends before `offset`, and it is at the latest
    the one of the next entry, which the entry after that follows.
    """
    before = index.count_ending_before(offset)
    low, low_last = Position(0), Offset(-1)
    if before:
        low_last, low = index.entry(before - 1)
    high = index.entry(before + 1).position if before + 1 < index.count else Position(data_bytes)
    return Place(low, low_last, high)


def place_behind(index: SegmentIndex, position: Position, *, data_bytes: int) -> Place:
    """Of the batch that begins at `position`, which is known."""
    following = index.first_behind(position)
    return Place(position, Offset(-1), Position(data_bytes) if following is None else following)


def lead_span(
    place: Place, *, bytes_max: int, lead_bytes: int, block_bytes: int, data_bytes: int
) -> Span:
    """What answers a first read: the sought batch whole, and up to `lead_bytes` behind it."""
    end = max(place.high, min(place.low + min(bytes_max, lead_bytes), data_bytes))
    span = Span(place.low, Position(end))
    return aligned(span, block_bytes=block_bytes, data_bytes=data_bytes)


def guess_span(entry: Entry, offset: Offset, *, block_bytes: int) -> Span:
    """Where `offset` probably lies, from the manifest alone: one or two blocks.

    Between two samples, batches are taken to be alike. Near a border of blocks the neighbour is
    taken along. A wrong guess costs a round trip, never a wrong answer.
    """
    samples = entry.samples
    number = bisect_right(samples, offset, key=lambda sample: sample.offset) - 1
    if number < 0:
        low, low_offset = 0, entry.base
    else:
        low_offset, low = samples[number]
    high_offset, high = entry.next_offset, entry.data_bytes
    if number + 1 < len(samples):
        high_offset, high = samples[number + 1]
    share = (offset - low_offset) / max(high_offset - low_offset, 1)
    position = min(low + int((high - low) * share), entry.data_bytes - 1)
    quarter = block_bytes // 4
    around = Span(
        Position(max(position - quarter, 0)), Position(min(position + quarter, entry.data_bytes))
    )
    return aligned(around, block_bytes=block_bytes, data_bytes=entry.data_bytes)
