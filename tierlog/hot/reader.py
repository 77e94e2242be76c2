"""Reading one segment: whole batches by offset, the batch that answers a question about time.

What is served was checked. Bytes that this process appended or scanned are trusted; others are
checked (CRC and offsets) when they are first read. An index entry is believed only if the batch it
names agrees with it. Behind a damaged batch the reader finds the way again, so that sound records
stay readable; the damaged range itself raises `DamagedOffsets`.
"""

import logging
from typing import NoReturn

from tierlog.hot.errors import DamagedOffsets
from tierlog.hot.headers import HeaderWalk, unpack_place
from tierlog.hot.intervals import Intervals
from tierlog.hot.resync import resync
from tierlog.hot.scan import scan, walk
from tierlog.hot.segment import Segment
from tierlog.records.batch import HEADER_BYTES, PREFIX_BYTES, parse_header
from tierlog.records.errors import CorruptBatch, MalformedRecords
from tierlog.records.header import BatchHeader
from tierlog.records.record import decode_records
from tierlog.types import NO_TIMESTAMP, Bytes, Offset, Position, TimestampMs

logger = logging.getLogger(__name__)

LARGE_BYTES = 64 << 10
"""Reads of this size and more end where the index says: an index interval less, and no byte is
copied twice."""

KNOWN_MAX = 32
"""Remembered batch starts: a sequential reader asks next for where its last read ended."""

EVERYTHING = 2**63


class _Found(Exception):
    def __init__(self, position: Position, base_offset: Offset) -> None:
        self.place = (position, base_offset)


def unreadable_answer(batch: Bytes, start: Offset) -> tuple[Offset, TimestampMs]:
    """What a batch answers to a question about time when nobody can decode its records.

    Its producer wrote garbage under a right CRC: the header is all there is to go by.
    """
    header = parse_header(batch)
    return max(header.base_offset, start), header.max_timestamp


class SegmentReader:
    __slots__ = ("_checked", "_known", "_trusted_from", "segment")

    def __init__(self, segment: Segment, *, trusted_from: int = EVERYTHING) -> None:
        self.segment = segment
        self._known: dict[Offset, Position] = {}
        self._checked = Intervals()
        # From here on bytes were, or will be, written or scanned by this process.
        self._trusted_from = trusted_from

    def read(self, offset: Offset, *, bytes_max: int, end: Offset) -> Bytes:
        """Whole batches from the one that holds `offset`, at least one, all of them below `end`.

        `offset` lies in the segment; the result is empty only if `end` is in the same batch.
        """
        known = self._known.get(offset)
        if known is not None and known >= self._trusted_from and bytes_max >= LARGE_BYTES:
            data = self._read_on(known, bytes_max, end)
            if data is not None:
                return data
        position, expected = self.locate(offset) if known is None else (known, offset)
        try:
            return self._read_from(position, expected, bytes_max=bytes_max, end=end)
        except DamagedOffsets as damage:
            if offset < damage.end:
                raise
        # The damaged header claimed offsets that sound batches behind it hold.
        position, expected = self._locate_by_scan(offset, position, expected)
        return self._read_from(position, expected, bytes_max=bytes_max, end=end)

    def _read_on(self, position: Position, bytes_max: int, end: Offset) -> Bytes | None:
        """The good road of a sequential reader: trusted bytes, up to a border of the index.

        None where anything is out of the ordinary: the long road sorts it out. Written flat, since
        after a copy of a MiB every call is a walk through cold caches.
        """
        segment = self.segment
        stop = segment.size if end >= segment.next_offset else self._known.get(end, 0)
        if stop - position <= bytes_max:
            return None
        pairs = segment.indexes().offsets.pairs
        number = pairs.count_at_most(position + bytes_max - HEADER_BYTES, column=1) - 1
        relative, border = pairs.pair(number) if number >= 0 else (0, 0)
        if border <= position:
            return None
        data = segment.file().pread(border - position + HEADER_BYTES, position)
        if len(data) != border - position + HEADER_BYTES:
            return None
        base_offset, _, delta = unpack_place(data, border - position)
        if base_offset + delta != segment.base_offset + relative:
            return None
        self._remember(base_offset, Position(border))
        return memoryview(data)[: border - position]

    def _read_from(
        self, position: Position, expected: Offset, *, bytes_max: int, end: Offset
    ) -> Bytes:
        segment = self.segment
        if end >= segment.next_offset:
            stop, next_offset = segment.size, segment.next_offset
        else:
            stop, next_offset = self.locate(end, behind=(position, expected))
            if next_offset == end:
                self._remember(end, stop)  # The visible end: others stop there as well.
        if position >= stop:
            return b""
        size = min(max(bytes_max, HEADER_BYTES), stop - position)
        if LARGE_BYTES <= size < stop - position:
            data, next_offset = self._up_to_border(position, size, stop)
            is_short = not data
        else:
            data = segment.file().pread(size, position)
            is_short = len(data) < size
            if position + size < stop and not is_short:
                data, next_offset = self._whole_batches(data, position, stop)
                is_short = not data
        if is_short or not (
            position >= self._trusted_from or self._checked.covers(position, position + len(data))
        ):
            checked = self._check(data, position, expected)
            if is_short or len(checked) < len(data):
                return checked
        self._remember(next_offset, Position(position + len(data)))
        return data

    def _up_to_border(self, position: Position, size: int, stop: Position) -> tuple[Bytes, Offset]:
        """Whole batches, up to the last one within `size` that the index knows.

        The header of that one is read along: it must agree with the index.
        """
        offsets = self.segment.indexes().offsets
        entry = offsets.before_position(Position(position + size - HEADER_BYTES))
        border = 0 if entry is None else entry.position - position
        if entry is not None and border > 0:
            data = self.segment.file().pread(border + HEADER_BYTES, position)
            if len(data) == border + HEADER_BYTES:
                base_offset, _, delta = unpack_place(data, border)
                if base_offset + delta == entry.last_offset:
                    return memoryview(data)[:border], base_offset
        data = self.segment.file().pread(size, position)
        if len(data) < size:
            return b"", Offset(-1)
        return self._whole_batches(data, position, stop)

    def _whole_batches(
        self, data: Bytes, position: Position, stop: Position
    ) -> tuple[Bytes, Offset]:
        """Cut behind the last whole batch, or read on to the end of the first.

        Empty when its length is damaged or the file lost its end: there is no whole batch.
        """
        base_offset, length, delta = unpack_place(data)
        size, first_size = len(data), length + PREFIX_BYTES
        if first_size > stop - position:
            return b"", base_offset
        if first_size > size:
            whole = self.segment.file().pread(first_size, position)
            return whole if len(whole) == first_size else b"", Offset(base_offset + delta + 1)
        cut, next_offset = self._indexed_border(data, position)
        while cut + HEADER_BYTES <= size:
            base_offset, length, delta = unpack_place(data, cut)
            end = cut + length + PREFIX_BYTES
            if end > size or length < HEADER_BYTES - PREFIX_BYTES:
                break
            cut = end
            next_offset = Offset(base_offset + delta + 1)
        return memoryview(data)[:cut], next_offset

    def _indexed_border(self, data: Bytes, position: Position) -> tuple[int, Offset]:
        """The last batch in `data` that the index knows: where it begins, and its base offset."""
        offsets = self.segment.indexes().offsets
        entry = offsets.before_position(Position(position + len(data) - HEADER_BYTES))
        if entry is not None and entry.position > position:
            border = entry.position - position
            base_offset, _, delta = unpack_place(data, border)
            if base_offset + delta == entry.last_offset:
                return border, base_offset
        return 0, Offset(-1)

    def _check(self, data: Bytes, position: Position, expected: Offset) -> Bytes:
        """Check bytes that are not trusted yet; serve the sound ones before a bad batch."""
        segment = self.segment
        state = walk(data, at=position, expected=expected, contiguous=segment.contiguous)
        self._checked.add(position, state.position)
        if state.position == position:
            self._raise_damaged(position, expected, state.fault)
        return data if state.fault is None else memoryview(data)[: state.position - position]

    def locate(
        self, offset: Offset, *, behind: tuple[Position, Offset] | None = None
    ) -> tuple[Position, Offset]:
        """The batch that holds `offset`, or the first behind it: position, and base offset.

        Where offsets may have gaps the base offset is a lower bound. `behind` is a place at or
        before it that was located already.
        """
        segment = self.segment
        if offset >= segment.next_offset:
            return segment.size, segment.next_offset
        known = self._known.get(offset)
        if known is not None:
            return known, offset
        headers = HeaderWalk(segment)
        start = self._start_near(offset, headers, behind or (Position(0), segment.base_offset))
        return headers.seek(offset, *start) or self._locate_by_scan(offset, *start)

    def _start_near(
        self, offset: Offset, headers: HeaderWalk, behind: tuple[Position, Offset]
    ) -> tuple[Position, Offset]:
        """A batch at or before `offset`: `behind`, or a later one that the index truly knows."""
        segment = self.segment
        entry = segment.indexes().offsets.at_or_before(offset)
        if entry is None or entry.position <= behind[0]:
            return behind
        header = headers.peek(entry.position)
        if header is not None and header.last_offset == entry.last_offset:
            return entry.position, header.base_offset
        logger.warning("the indexes of %s disagree with its batches: rebuilt", segment.path)
        segment.rebuild_indexes()
        entry = segment.indexes().offsets.at_or_before(offset)
        header = headers.peek(entry.position) if entry else None
        if entry is None or header is None or entry.position <= behind[0]:
            return behind
        return entry.position, header.base_offset

    def _locate_by_scan(
        self, offset: Offset, position: Position, expected: Offset
    ) -> tuple[Position, Offset]:
        """Headers on the way are damaged: go by checked batches only."""

        def visit(header: BatchHeader, at: Position) -> None:
            if header.next_offset > offset:
                raise _Found(at, header.base_offset)

        segment = self.segment
        while True:
            try:
                state = scan(
                    segment.file(),
                    start=position,
                    end=segment.size,
                    expected=expected,
                    contiguous=segment.contiguous,
                    visit=visit,
                )
            except _Found as found:
                return found.place
            if state.fault is None and state.position == segment.size:
                return segment.size, segment.next_offset
            sound = self._next_sound(state.position, state.next_offset)
            if sound is None or offset < sound[1]:
                self._raise_damaged(state.position, state.next_offset, state.fault)
            position, expected = sound

    def _next_sound(self, position: Position, start: Offset) -> tuple[Position, Offset] | None:
        segment = self.segment
        found = resync(
            segment.file(),
            start=position,
            end=segment.size,
            floor=start,
            ceiling=segment.next_offset,
        )
        return None if found is None else (found[0], found[1].base_offset)

    def _raise_damaged(
        self, position: Position, start: Offset, fault: CorruptBatch | None
    ) -> NoReturn:
        reason = str(fault or f"no whole batch at position {position}")
        sound = self._next_sound(position, start)
        end = self.segment.next_offset if sound is None else sound[1]
        raise DamagedOffsets(start, end, where=self.segment.path, reason=reason)

    def batch_at_time(self, timestamp: TimestampMs, *, start: Offset) -> Bytes | None:
        """The first batch from `start` on whose largest timestamp is at or after `timestamp`."""
        segment = self.segment
        if segment.max_timestamp < timestamp:
            return None
        offset = max(start, self._offset_near(timestamp))
        position, expected = self.locate(offset)
        headers = HeaderWalk(segment)
        while position < segment.size:
            header = headers.at(position, expected)
            if header is None or header.max_timestamp >= timestamp:
                # Read through the checks: they raise where the header lied.
                return self.read(max(offset, expected), bytes_max=1, end=segment.next_offset)
            position = Position(position + header.size_bytes)
            expected = header.next_offset
        return None

    def _offset_near(self, timestamp: TimestampMs) -> Offset:
        """An offset up to which all timestamps are smaller, by the time index if it is right."""
        segment = self.segment
        entry = segment.indexes().times.before(timestamp)
        if entry is None:
            return segment.base_offset
        header = HeaderWalk(segment).at(*self.locate(entry.last_offset))
        if header and (header.max_timestamp, header.last_offset) == entry:
            return header.next_offset
        logger.warning("the time index of %s disagrees with its batches: rebuilt", segment.path)
        segment.rebuild_indexes()
        return segment.base_offset

    def latest(self, *, start: Offset, end: Offset) -> tuple[Offset, TimestampMs] | None:
        """The record of [start, end) with the largest timestamp, the first of several."""
        segment = self.segment
        if start <= segment.max_timestamp_offset < end:
            found = self._latest_of_batch(segment.max_timestamp_offset, start)
            if found is not None and found[1] == segment.max_timestamp:
                return found
        return self._latest_by_walk(start, end)

    def _latest_by_walk(self, start: Offset, end: Offset) -> tuple[Offset, TimestampMs] | None:
        """The largest of the segment is trimmed away or not visible yet: go by the headers."""
        segment = self.segment
        best: tuple[Offset, TimestampMs] | None = None
        position, expected = self.locate(self._skip_smaller(start, end))
        headers = HeaderWalk(segment)
        while position < segment.size and expected < end:
            header = headers.at(position, expected)
            if header is None:
                self._raise_damaged(position, expected, None)
            if expected < start:  # The log start cuts through this batch.
                best = self._latest_of_batch(start, start)
            elif header.max_timestamp > (best[1] if best else NO_TIMESTAMP):
                best = header.last_offset, header.max_timestamp
            position = Position(position + header.size_bytes)
            expected = header.next_offset
        return None if best is None else self._latest_of_batch(best[0], start)

    def _skip_smaller(self, start: Offset, end: Offset) -> Offset:
        """An offset before which nothing from `start` on is larger, if the time index is right."""
        entry = self.segment.indexes().times.before_offset(end)
        if entry is None or entry.last_offset <= start:
            return max(start, self.segment.base_offset)
        header = HeaderWalk(self.segment).at(*self.locate(entry.last_offset))
        agrees = header and (header.max_timestamp, header.last_offset) == entry
        return entry.last_offset if agrees else max(start, self.segment.base_offset)

    def _latest_of_batch(self, offset: Offset, start: Offset) -> tuple[Offset, TimestampMs] | None:
        batch = self.read(offset, bytes_max=1, end=self.segment.next_offset)
        try:
            records = [record for record in decode_records(batch) if record.offset >= start]
        except MalformedRecords:
            return unreadable_answer(batch, start)
        latest = max(records, key=lambda record: record.timestamp, default=None)
        return None if latest is None else (latest.offset, latest.timestamp)

    def _remember(self, offset: Offset, position: Position) -> None:
        known = self._known
        if len(known) >= KNOWN_MAX and offset not in known:
            del known[next(iter(known))]
        known[offset] = position
