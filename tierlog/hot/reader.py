"""Reading one segment: whole batches by offset.

What is served was checked. Bytes that this process appended or scanned are trusted; others are
checked (CRC and offsets) when they are first read. An index entry is believed only if the batch it
names agrees with it. Behind a damaged batch the reader finds the way again, so that sound records
stay readable; the damaged range itself raises `DamagedOffsets`.
"""

import logging
from typing import TYPE_CHECKING, NoReturn

from tierlog.hot.errors import DamagedOffsets
from tierlog.hot.headers import HeaderWalk, unpack_place
from tierlog.hot.intervals import Intervals
from tierlog.hot.resync import resync
from tierlog.hot.scan import scan, walk
from tierlog.hot.segment import Segment
from tierlog.records.batch import HEADER_BYTES, PREFIX_BYTES
from tierlog.records.errors import CorruptBatch
from tierlog.records.header import BatchHeader
from tierlog.types import Bytes, Offset, Position, TimestampMs

if TYPE_CHECKING:
    from tierlog.env import File

logger = logging.getLogger(__name__)

LARGE_BYTES = 64 << 10
"""Reads of this size and more end where the index says: an index interval less, and no byte is
copied twice."""

UNCHECKED_MAX = 1 << 20
"""Bytes that one read checks for the first time, unless a batch is larger: it is the loop that
reads and checks them, and the next read goes on from there."""

KNOWN_MAX = 32
"""Remembered batch starts: a sequential reader asks next for where its last read ended."""

SPAN_MAX = 1 << 20
"""Longest view that is remembered whole, for the next reader of the same place. Who sends a longer
one does not ask whether it is still there (`is_cached`), and looking it up costs little beside it.
"""

EVERYTHING = 2**63


class _Found(Exception):
    def __init__(self, position: Position, base_offset: Offset) -> None:
        self.place = (position, base_offset)


class SegmentReader:
    __slots__ = (
        "_checked",
        "_known",
        "_spans",
        "_trusted_from",
        "_viewed",
        "latest_known",
        "segment",
    )

    def __init__(self, segment: Segment, *, trusted_from: int = EVERYTHING) -> None:
        self.segment = segment
        self._known: dict[Offset, Position] = {}
        self._checked = Intervals()
        self._spans: dict[Offset, tuple[int, Offset, Position, int]] = {}
        """By offset: limit and end of the last view from there, its position and size. The same
        limit and a later end make the same view: what is appended meanwhile lies behind it."""
        self._viewed: tuple[Offset, Position, File | None] = (Offset(-1), Position(0), None)
        self.latest_known: tuple[tuple[Offset, Offset], tuple[Offset, TimestampMs] | None] | None
        """Of `bytime`: an offset and a start, and the latest record of that batch."""
        self.latest_known = None
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

    def view(self, offset: Offset, *, bytes_max: int, end: Offset) -> Bytes:
        """What `read` answers, to be sent and not looked at: not copied where it is trusted."""
        span = self._spans.get(offset)
        if span is not None and span[0] == bytes_max and span[1] <= end:
            _, _, position, size = span
            file = self.segment.file()
            self._viewed = (offset, position, file)
            return file.view(size, position)
        known = self._known.get(offset)
        if known is not None and known >= self._trusted_from and bytes_max >= LARGE_BYTES:
            data = self._view_on(offset, known, bytes_max, end)
            if data is not None:
                return data
        trusted = self._trusted_span(offset, bytes_max, end)
        if trusted is not None:
            data = self.segment.view(*trusted)
            if data is not None:
                self._viewed = (offset, trusted[0], None)
                return data
        return self.read(offset, bytes_max=bytes_max, end=end)

    def _view_on(
        self, offset: Offset, position: Position, bytes_max: int, end: Offset
    ) -> Bytes | None:
        """The good road of a sequential reader, flat as in `_read_on`."""
        segment = self.segment
        stop = segment.size if end >= segment.next_offset else self._known.get(end, 0)
        if stop - position <= bytes_max:
            return None
        pairs = segment.indexes().offsets.pairs
        number = pairs.count_at_most(position + bytes_max - HEADER_BYTES, column=1) - 1
        relative, border = pairs.pair(number) if number >= 0 else (0, 0)
        if border <= position:
            return None
        file = segment.file()
        header = file.pread(HEADER_BYTES, border)
        if len(header) != HEADER_BYTES:
            return None
        base_offset, _, delta = unpack_place(header)
        if base_offset + delta != segment.base_offset + relative:
            return None
        self._remember(base_offset, Position(border))
        size = border - position
        if size <= SPAN_MAX:
            spans = self._spans
            if len(spans) >= KNOWN_MAX and offset not in spans:
                del spans[next(iter(spans))]
            spans[offset] = (bytes_max, end, position, size)
        self._viewed = (offset, position, file)
        return file.view(size, position)

    def _trusted_span(
        self, offset: Offset, bytes_max: int, end: Offset
    ) -> tuple[Position, int] | None:
        """Position and size of whole trusted batches; None where `read` has to sort it out.

        Borders come from the index, and from the header that it names.
        """
        position, expected = self.locate(offset)
        segment = self.segment
        if end >= segment.next_offset:
            stop, next_offset = segment.size, segment.next_offset
        else:
            stop, next_offset = self.locate(end, behind=(position, expected))
        size = stop - position
        if size > bytes_max:
            border = self._border(position, bytes_max) if bytes_max >= LARGE_BYTES else None
            if border is None:
                return None
            stop, next_offset = border
            size = stop - position
        if size <= 0 or not self._is_checked(position, stop):
            return None
        self._remember(next_offset, stop)
        return position, size

    def _border(self, position: Position, size: int) -> tuple[Position, Offset] | None:
        """The last batch within `size` bytes that the index truly knows, if it is not the first."""
        segment = self.segment
        entry = segment.indexes().offsets.before_position(Position(position + size - HEADER_BYTES))
        if entry is None or entry.position <= position:
            return None
        header = segment.file().pread(HEADER_BYTES, entry.position)
        if len(header) < HEADER_BYTES:
            return None
        base_offset, _, delta = unpack_place(header)
        return (entry.position, base_offset) if base_offset + delta == entry.last_offset else None

    def is_cached(self, offset: Offset, size: int) -> bool:
        """Whether `size` bytes from the batch that holds `offset` on are in the page cache."""
        viewed, position, file = self._viewed
        if viewed != offset:
            position, file = self.locate(offset)[0], None
        size = min(size, self.segment.size - position)
        if (file or self.segment.file()).is_cached(size, position):
            return True
        # It may not be there at all any more: whoever comes back for it has it looked at again.
        self._spans.pop(offset, None)
        return False

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
        if size > UNCHECKED_MAX and not self._is_checked(position, position + size):
            size = UNCHECKED_MAX
        if LARGE_BYTES <= size < stop - position:
            data, next_offset = self._up_to_border(position, size, stop)
            is_short = not data
        else:
            data = segment.file().pread(size, position)
            is_short = len(data) < size
            if position + size < stop and not is_short:
                data, next_offset = self._whole_batches(data, position, stop)
                is_short = not data
        if is_short or not self._is_checked(position, position + len(data)):
            checked = self._check(data, position, expected)
            if is_short or len(checked) < len(data):
                return checked
        self._remember(next_offset, Position(position + len(data)))
        return data

    def _is_checked(self, start: int, end: int) -> bool:
        return start >= self._trusted_from or self._checked.covers(start, end)

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
            self.raise_damaged(position, expected, state.fault)
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
                self.raise_damaged(state.position, state.next_offset, state.fault)
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

    def raise_damaged(
        self, position: Position, start: Offset, fault: CorruptBatch | None
    ) -> NoReturn:
        reason = str(fault or f"no whole batch at position {position}")
        sound = self._next_sound(position, start)
        end = self.segment.next_offset if sound is None else sound[1]
        raise DamagedOffsets(start, end, where=self.segment.path, reason=reason)

    def _remember(self, offset: Offset, position: Position) -> None:
        known = self._known
        if len(known) >= KNOWN_MAX and offset not in known:
            del known[next(iter(known))]
        known[offset] = position
