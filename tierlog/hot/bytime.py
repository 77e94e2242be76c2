"""Questions about time, answered by the batches of one segment.

The time index shows where to begin; an entry is believed only if the batch that it names agrees,
and answers are read through the reader's checks.

A search may be long: headers that promise what their records do not hold, large batches that have
to be decompressed. So it comes in steps (`Steps`), each of them short. Between two steps the log
may change: places are found anew by their offsets.
"""

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from tierlog.hot.headers import HeaderWalk
from tierlog.hot.reader import SegmentReader
from tierlog.records.attributes import Codec
from tierlog.records.batch import parse_header
from tierlog.records.errors import MalformedRecords
from tierlog.records.timestamps import first_record_at_or_after, max_timestamp_record
from tierlog.types import NO_TIMESTAMP, Bytes, Offset, Position, TimestampMs

logger = logging.getLogger(__name__)

T = TypeVar("T")

HEADERS_A_STEP = 1000
"""Some milliseconds."""
SMALL_BYTES = 32 << 10
"""Of a plain batch whose records are looked through in some milliseconds."""

Found: TypeAlias = tuple[Offset, TimestampMs]


@dataclass(frozen=True, slots=True)
class Question:
    """To the records of one batch. Shares nothing: any thread may answer it."""

    batch: Bytes
    look: Callable[[Bytes], Found | None]
    start: Offset

    @property
    def is_small(self) -> bool:
        """Whether the answer takes no time worth speaking of."""
        return len(self.batch) <= SMALL_BYTES and parse_header(self.batch).codec == Codec.NONE

    def answer(self) -> Found | None:
        try:
            return self.look(self.batch)
        except MalformedRecords:
            return unreadable_answer(self.batch, self.start)


Steps: TypeAlias = Generator[Question | None, Found | None, T]
"""A search: yields None where others may have their turn, and questions, whose answers it is sent.
"""


def run_now(steps: Steps[T]) -> T:
    """Take all steps at once. Blocks."""
    found: Found | None = None
    while True:
        try:
            question = steps.send(found)
        except StopIteration as stop:
            result: T = stop.value
            return result
        found = None if question is None else question.answer()


def unreadable_answer(batch: Bytes, start: Offset) -> Found:
    """What a batch answers to a question about time when nobody can decode its records.

    Its producer wrote garbage under a right CRC: the header is all there is to go by.
    """
    header = parse_header(batch)
    return max(header.base_offset, start), header.max_timestamp


def first_at_time(batch: Bytes, timestamp: TimestampMs, start: Offset) -> Question:
    """To a batch whose header promises a record at or after `timestamp`."""
    look = partial(first_record_at_or_after, timestamp=timestamp, from_offset=start)
    return Question(batch, look, start)


def batch_at_time(
    reader: SegmentReader, timestamp: TimestampMs, *, start: Offset
) -> tuple[Bytes | None, Offset]:
    """The first batch from `start` on whose largest timestamp is at or after `timestamp`, and the
    offset behind it. Without a batch, the offset says from where to look on."""
    segment = reader.segment
    if segment.max_timestamp < timestamp:
        return None, segment.next_offset
    offset = max(start, _offset_near(reader, timestamp))
    position, expected = reader.locate(offset)
    headers = HeaderWalk(segment)
    for _ in range(HEADERS_A_STEP):
        if position >= segment.size:
            return None, segment.next_offset
        header = headers.at(position, expected)
        if header is None or header.max_timestamp >= timestamp:
            # Read through the checks: they raise where the header lied.
            batch = reader.read(max(offset, expected), bytes_max=1, end=segment.next_offset)
            return batch, parse_header(batch).next_offset
        position = Position(position + header.size_bytes)
        expected = header.next_offset
    return None, expected


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
    reader: SegmentReader, *, start: Offset, end: Offset, is_gone: Callable[[], bool]
) -> Steps[Found | None]:
    """The record of [start, end) with the largest timestamp, the first of several."""
    segment = reader.segment
    if start <= segment.max_timestamp_offset < end:
        largest = segment.max_timestamp
        found = yield from _latest_of_batch(reader, segment.max_timestamp_offset, start)
        if found is not None and found[1] == largest:
            return found
        if is_gone():
            return None
    return (yield from _latest_by_walk(reader, start, end, is_gone))


def _latest_by_walk(
    reader: SegmentReader, start: Offset, end: Offset, is_gone: Callable[[], bool]
) -> Steps[Found | None]:
    """The largest of the segment is trimmed away or not visible yet: go by the headers."""
    segment = reader.segment
    best: Found | None = None
    offset = _skip_smaller(reader, start, end)
    if reader.locate(offset)[1] < start:  # The log start cuts through this batch.
        _, offset = _largest_header(reader, offset, end, None, count_max=1)
        best = yield from _latest_of_batch(reader, start, start)
    while not is_gone() and offset < min(end, segment.next_offset):
        best, offset = _largest_header(reader, offset, end, best, count_max=HEADERS_A_STEP)
        yield None
    if best is None or is_gone():
        return None
    return (yield from _latest_of_batch(reader, best[0], start))


def _largest_header(
    reader: SegmentReader, offset: Offset, end: Offset, best: Found | None, *, count_max: int
) -> tuple[Found | None, Offset]:
    """The largest of `best` and the next headers; and where to go on."""
    segment = reader.segment
    position, expected = reader.locate(offset)
    headers = HeaderWalk(segment)
    for _ in range(count_max):
        if position >= segment.size or expected >= end:
            return best, end
        header = headers.at(position, expected)
        if header is None:
            reader.raise_damaged(position, expected, None)
        if header.max_timestamp > (best[1] if best else NO_TIMESTAMP):
            best = header.last_offset, header.max_timestamp
        position = Position(position + header.size_bytes)
        expected = header.next_offset
    return best, expected


def _skip_smaller(reader: SegmentReader, start: Offset, end: Offset) -> Offset:
    """An offset before which nothing from `start` on is larger, if the time index is right."""
    entry = reader.segment.indexes().times.before_offset(end)
    if entry is None or entry.last_offset <= start:
        return max(start, reader.segment.base_offset)
    header = HeaderWalk(reader.segment).at(*reader.locate(entry.last_offset))
    agrees = header and (header.max_timestamp, header.last_offset) == entry
    return entry.last_offset if agrees else max(start, reader.segment.base_offset)


def _latest_of_batch(reader: SegmentReader, offset: Offset, start: Offset) -> Steps[Found | None]:
    """Of the batch that holds `offset`. The last answer is remembered: many ask again."""
    if reader.latest_known is not None and reader.latest_known[0] == (offset, start):
        return reader.latest_known[1]
    batch = reader.read(offset, bytes_max=1, end=reader.segment.next_offset)
    found = yield Question(batch, partial(max_timestamp_record, from_offset=start), start)
    reader.latest_known = (offset, start), found
    return found
