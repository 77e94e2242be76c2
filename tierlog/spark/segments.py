"""Batches of a segment object, from a position on: read by ranges, checked one by one.

Memory is one piece and the largest batch in it. A batch's checksum does not cover its offsets, so
each is held against the segment and the batch before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.cold.errors import ColdCorrupt
from tierlog.objectstore.port import Span
from tierlog.records.batch import validate_stored
from tierlog.records.errors import TruncatedBatch
from tierlog.spark.plan import RawSegment
from tierlog.spark.prices import PIECE_BYTES
from tierlog.types import Position

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierlog.cold.entry import Entry
    from tierlog.cold.layout import PartitionKeys
    from tierlog.objectstore.port import ObjectStore
    from tierlog.records.header import BatchHeader

BATCH_BYTES_MAX = 256 << 20
"""Brokers take no larger request."""


def raw_segment(keys: PartitionKeys, entry: Entry) -> RawSegment:
    return RawSegment(
        key=keys.full(entry.key),
        start=entry.base,
        end=entry.next_offset,
        records=entry.records,
        size=entry.data_bytes,
        samples=tuple((one.offset, one.position) for one in entry.samples),
    )


async def batches_from(
    store: ObjectStore, segment: RawSegment, *, position: int = 0, end: int | None = None
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    """Those in `[position, end)` of the object, both being borders of batches. Raises
    `ColdCorrupt` and the errors of `records`."""
    end = segment.size if end is None else end
    rest, at, following = b"", position, segment.start
    for start in range(position, end, PIECE_BYTES):
        span = Span(Position(start), Position(min(start + PIECE_BYTES, end)))
        piece = (await store.get(segment.key, span=span)).data
        buffer = memoryview(rest + bytes(piece) if rest else bytes(piece))
        used = 0
        while used < len(buffer):
            try:
                header = validate_stored(buffer, used)
            except TruncatedBatch as cut:
                _check_may_grow(cut, segment.key, at)
                break
            _check_place(header, segment, following, at)
            yield header, buffer[used : used + header.size_bytes]
            following = header.next_offset
            used += header.size_bytes
            at += header.size_bytes
        rest = bytes(buffer[used:])
    if rest:
        raise ColdCorrupt(segment.key, f"its batches are cut short at position {at}")


def _check_place(header: BatchHeader, segment: RawSegment, following: int, at: int) -> None:
    if not following <= header.base_offset <= header.last_offset < segment.end:
        raise ColdCorrupt(
            segment.key,
            f"a batch of offsets {header.base_offset} to {header.last_offset} at position {at}, "
            f"where {following} to {segment.end - 1} may stand",
        )


def _check_may_grow(cut: TruncatedBatch, key: str, at: int) -> None:
    if cut.needed > BATCH_BYTES_MAX:
        raise ColdCorrupt(key, f"a batch of {cut.needed} bytes at position {at}")
