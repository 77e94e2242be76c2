"""The first offset at or after a time, from the bucket alone.

Times need not rise with offsets: it is the first *record* that counts, as in Kafka. One range for
the index of the segment that the manifest names, and the pieces behind the place where it points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.cold import lookup
from tierlog.cold.head import PageRef
from tierlog.cold.segment_object import open_reader_index, reader_span
from tierlog.objectstore.port import Span
from tierlog.records.timestamps import first_record_at_or_after
from tierlog.spark.segments import batches_from, raw_segment
from tierlog.types import Offset, TimestampMs

if TYPE_CHECKING:
    from tierlog.cold.bucketview import BucketView, Place
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
    from tierlog.cold.page import Page


async def first_offset(view: BucketView, place: Place, head: Head, timestamp: int) -> int | None:
    """None: no record of the bucket is that late."""
    start = head.log_start
    while (entry := await _entry_at(view, place, head, timestamp, start)) is not None:
        found = await _first_in(view, place, entry, TimestampMs(timestamp), start)
        if found is not None:
            return found
        start = entry.next_offset
    return None


async def _entry_at(
    view: BucketView, place: Place, head: Head, timestamp: int, start: Offset
) -> Entry | None:
    opened: dict[str, Page] = {}
    while isinstance(
        found := lookup.find_by_time(head, TimestampMs(timestamp), opened, start=start), PageRef
    ):
        opened[found.key] = await view.page(place, found)
    return found


async def _first_in(
    view: BucketView, place: Place, entry: Entry, timestamp: TimestampMs, start: Offset
) -> int | None:
    segment = raw_segment(place.keys, entry)
    got = await view.store.get(segment.key, span=Span(*reader_span(entry)))
    index = open_reader_index(entry, got.data)
    near = index.times.before(timestamp)
    offset = start if near is None else max(start, Offset(near.last_offset + 1))
    before = index.offsets.at_or_before(offset)
    position = 0 if before is None else before.position
    async for header, batch in batches_from(view.store, segment, position=position):
        if header.max_timestamp >= timestamp and header.last_offset >= start:
            hit = first_record_at_or_after(batch, timestamp, from_offset=start)
            if hit is not None:
                return hit[0]
    return None
