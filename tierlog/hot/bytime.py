"""Questions about time, answered by the batches of one segment.

The time index shows where to begin; an entry is believed only if the batch that it names agrees,
and answers are read through the reader's checks.
"""

import logging

from tierlog.hot.headers import HeaderWalk
from tierlog.hot.reader import SegmentReader
from tierlog.records.batch import parse_header
from tierlog.records.errors import MalformedRecords
from tierlog.records.record import decode_records
from tierlog.types import NO_TIMESTAMP, Bytes, Offset, Position, TimestampMs

logger = logging.getLogger(__name__)


def unreadable_answer(batch: Bytes, start: Offset) -> tuple[Offset, TimestampMs]:
    """What a batch answers to a question about time when nobody can decode its records.

    Its producer wrote garbage under a right CRC: the header is all there is to go by.
    """
    header = parse_header(batch)
    return max(header.base_offset, start), header.max_timestamp


def batch_at_time(reader: SegmentReader, timestamp: TimestampMs, *, start: Offset) -> Bytes | None:
    """The first batch from `start` on whose largest timestamp is at or after `timestamp`."""
    segment = reader.segment
    if segment.max_timestamp < timestamp:
        return None
    offset = max(start, _offset_near(reader, timestamp))
    position, expected = reader.locate(offset)
    headers = HeaderWalk(segment)
    while position < segment.size:
        header = headers.at(position, expected)
        if header is None or header.max_timestamp >= timestamp:
            # Read through the checks: they raise where the header lied.
            return reader.read(max(offset, expected), bytes_max=1, end=segment.next_offset)
        position = Position(position + header.size_bytes)
        expected = header.next_offset
    return None


def _offset_near(reader: SegmentReader, timestamp: TimestampMs) -> Offset:
    """An offset up to which all timestamps are smaller, by the time index if it is right."""
    segment = reader.segment
    entry = segment.indexes().times.before(timestamp)
    if entry is None:
        return segment.base_offset
    header = HeaderWalk(segment).at(*reader.locate(entry.last_offset))
    if header and (header.max_timestamp, header.last_offset) == entry:
        return header.next_offset
    logger.warning("the time index of %s disagrees with its batches: rebuilt", segment.path)
    segment.rebuild_indexes()
    return segment.base_offset


def latest(
    reader: SegmentReader, *, start: Offset, end: Offset
) -> tuple[Offset, TimestampMs] | None:
    """The record of [start, end) with the largest timestamp, the first of several."""
    segment = reader.segment
    if start <= segment.max_timestamp_offset < end:
        found = _latest_of_batch(reader, segment.max_timestamp_offset, start)
        if found is not None and found[1] == segment.max_timestamp:
            return found
    return _latest_by_walk(reader, start, end)


def _latest_by_walk(
    reader: SegmentReader, start: Offset, end: Offset
) -> tuple[Offset, TimestampMs] | None:
    """The largest of the segment is trimmed away or not visible yet: go by the headers."""
    segment = reader.segment
    best: tuple[Offset, TimestampMs] | None = None
    position, expected = reader.locate(_skip_smaller(reader, start, end))
    headers = HeaderWalk(segment)
    while position < segment.size and expected < end:
        header = headers.at(position, expected)
        if header is None:
            reader.raise_damaged(position, expected, None)
        if expected < start:  # The log start cuts through this batch.
            best = _latest_of_batch(reader, start, start)
        elif header.max_timestamp > (best[1] if best else NO_TIMESTAMP):
            best = header.last_offset, header.max_timestamp
        position = Position(position + header.size_bytes)
        expected = header.next_offset
    return None if best is None else _latest_of_batch(reader, best[0], start)


def _skip_smaller(reader: SegmentReader, start: Offset, end: Offset) -> Offset:
    """An offset before which nothing from `start` on is larger, if the time index is right."""
    entry = reader.segment.indexes().times.before_offset(end)
    if entry is None or entry.last_offset <= start:
        return max(start, reader.segment.base_offset)
    header = HeaderWalk(reader.segment).at(*reader.locate(entry.last_offset))
    agrees = header and (header.max_timestamp, header.last_offset) == entry
    return entry.last_offset if agrees else max(start, reader.segment.base_offset)


def _latest_of_batch(
    reader: SegmentReader, offset: Offset, start: Offset
) -> tuple[Offset, TimestampMs] | None:
    batch = reader.read(offset, bytes_max=1, end=reader.segment.next_offset)
    try:
        records = [record for record in decode_records(batch) if record.offset >= start]
    except MalformedRecords:
        return unreadable_answer(batch, start)
    latest = max(records, key=lambda record: record.timestamp, default=None)
    return None if latest is None else (latest.offset, latest.timestamp)
