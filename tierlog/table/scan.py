"""Record batches, as they lie in a segment, into Arrow record batches of schema v1.

Each batch is checked (CRC, place, codec within bounds) and belongs to one of three: its records
become rows, it is a control batch and is counted, or it cannot be converted and is a dead letter
with the reason. What one batch has wrong costs that batch alone; where not even its length can be
believed, what lies before the next known place (`samples`) goes with it.

Memory: a window of the source, a piece of at most `PIECE_ROWS` rows or `PIECE_BYTES` plain bytes,
or one batch, twice, and dead letters until somebody takes them. int32 offsets are enough by far.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tierlog.records.attributes import Codec
from tierlog.records.batch import validate_stored
from tierlog.records.errors import BatchError, CorruptBatch, TruncatedBatch
from tierlog.records.header import HEADER_BYTES, MAGIC, BatchHeader, parse_header
from tierlog.records.limits import DEFAULT_LIMITS, Limits
from tierlog.records.record import headers_max, plain_records
from tierlog.table import fastscan, purescan
from tierlog.table.columns import record_batch
from tierlog.table.plans import Range as Range  # noqa: TC001  for others to import from here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    import pyarrow as pa

    from tierlog.types import Bytes

PIECE_ROWS = 128 << 10
PIECE_BYTES = 4 << 20
"""Of plain records that become columns together: what a processor's cache holds is not fetched from
memory three times."""
WINDOW_BYTES = 2 << 20
DEAD_BYTES_MAX = 16 << 20
"""Of what a dead letter keeps where not even the length of a batch is known; and of letters that
are held before somebody takes them."""


class Bytestream(Protocol):
    """Where the batches are read from. Blocks."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, size: int) -> Bytes:
        """As many, or fewer at the end."""
        ...


class InMemory:
    """Implements `Bytestream`."""

    def __init__(self, data: Bytes) -> None:
        self._data = memoryview(data)

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, position: int, size: int) -> Bytes:
        return self._data[position : position + size]


class Dead(NamedTuple):
    """A batch that could not be converted, or what lies where one should begin."""

    first_offset: int
    last_offset: int
    records: int
    """As its header says; of what has no header, as many as there are offsets."""
    position: int
    reason: str
    batch: bytes


@dataclass(slots=True, kw_only=True)
class Tally:
    """What became of the records of a source; complete when the scan has ended."""

    rows: int = 0
    control_records: int = 0
    dead: list[Dead] = field(default_factory=list)
    """In the order of their positions; where there is a `spill`, those that wait for it."""
    spill: Callable[[list[Dead]], None] | None = None
    """Takes dead letters before they fill the memory: all of them in the end."""
    _dead_bytes: int = 0

    @property
    def dead_records(self) -> int:
        return sum(one.records for one in self.dead)

    def bury(self, dead: Dead) -> None:
        self.dead.append(dead)
        self._dead_bytes += len(dead.batch)
        if self._dead_bytes >= DEAD_BYTES_MAX:
            self.let_go()

    def let_go(self) -> None:
        self.dead.sort(key=lambda one: one.position)
        if self.spill is not None and self.dead:
            self.spill(self.dead)
            self.dead = []
        self._dead_bytes = 0


def engine() -> ModuleType:
    """The faster scan that this machine has."""
    return fastscan if fastscan.is_available() else purescan


def scan(
    source: Bytestream,
    wanted: Range,
    tally: Tally,
    *,
    limits: Limits = DEFAULT_LIMITS,
    by: ModuleType | None = None,
    piece_rows: int = PIECE_ROWS,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows, in order, a piece at a time; none is empty. `tally` counts them and the rest."""
    piece = _Piece(wanted, tally, by or engine(), piece_rows)
    for batch in _walk(source, wanted, tally):
        try:
            payload = _payload(batch.header, batch.data, limits)
        except BatchError as fault:
            tally.bury(_dead_batch(batch, str(fault)))
            continue
        count = batch.header.record_count
        if piece.rows and (
            piece.rows + count > piece_rows or piece.size + len(payload) > piece_bytes
        ):
            yield from piece.flush()
        piece.add(batch, payload, headers_max(batch.header, limits=limits))
    yield from piece.flush()
    tally.let_go()


def _payload(header: BatchHeader, data: memoryview, limits: Limits) -> Bytes:
    """The plain records of a batch that was checked. Without a codec they are not copied."""
    if header.codec is Codec.NONE:
        return data[HEADER_BYTES:]
    return plain_records(data, limits=limits)[1]


class _Batch(NamedTuple):
    header: BatchHeader
    data: memoryview
    position: int


class _Piece:
    def __init__(self, wanted: Range, tally: Tally, by: ModuleType, rows_max: int) -> None:
        self._wanted = wanted
        self._tally = tally
        self._by = by
        self._rows_max = rows_max
        self._batches: list[_Batch] = []
        self._payloads: list[Bytes] = []
        self._headers_max: list[int] = []
        self.rows = 0
        self.size = 0

    def add(self, batch: _Batch, payload: Bytes, headers_max: int) -> None:
        self._batches.append(batch)
        self._payloads.append(payload)
        self._headers_max.append(headers_max)
        self.rows += batch.header.record_count
        self.size += len(payload)

    def flush(self) -> Iterator[pa.RecordBatch]:
        columns = None
        while columns is None and self._batches:
            headers = [one.header for one in self._batches]
            columns, refused = self._by.columns_of(headers, self._payloads, self._headers_max)
            self._bury(refused)
        if columns is not None:
            yield from self._cut(
                record_batch(columns, topic=self._wanted.topic, partition=self._wanted.partition)
            )
        self._batches, self._payloads, self._headers_max = [], [], []
        self.rows = self.size = 0

    def _bury(self, refused: Sequence[int]) -> None:
        for number in sorted(refused, reverse=True):
            batch, payload = self._batches.pop(number), self._payloads.pop(number)
            most = self._headers_max.pop(number)
            self._tally.bury(_dead_batch(batch, _why(batch.header, payload, most)))

    def _cut(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What is wanted of them, in pieces that are not too long."""
        offsets = rows.column("offset").to_numpy()
        first, end = (int(one) for one in offsets.searchsorted(self._span))
        self._tally.rows += end - first
        for place in range(first, end, self._rows_max):
            yield rows.slice(place, min(self._rows_max, end - place))

    @property
    def _span(self) -> list[int]:
        return [self._wanted.start, self._wanted.end]


def _why(header: BatchHeader, payload: Bytes, headers_max: int) -> str:
    """The sentence of the decoder that people know."""
    try:
        purescan.records(header, payload, headers_max)
    except BatchError as fault:
        return str(fault)
    raise AssertionError("the two decoders disagree")


# Batches


def _walk(source: Bytestream, wanted: Range, tally: Tally) -> Iterator[_Batch]:
    """Batches with records of `[start, end)`, each checked; the others are accounted for."""
    expected, position = wanted.base, 0
    window, at = memoryview(b""), -1
    while position < source.size:
        view = window[position - at :]
        try:
            header = _checked(view, expected, wanted)
        except CorruptBatch as fault:
            if at != position:  # It may lie whole in a window of its own.
                window, at = _window(source, position), position
                continue
            found = _believable(view, expected, wanted)
            if found is None:
                dead = _dead_place(source, position, expected, wanted, str(fault))
                _bury_wanted(tally, dead, wanted)
                expected, position = _next_place(position, wanted, source.size)
                continue
            header = found
            data = view[: header.size_bytes]
            dead = _dead_batch(_Batch(header, data, position), str(fault))
            _bury_wanted(tally, dead, wanted)
        else:
            if header.next_offset > wanted.start and header.base_offset < wanted.end:
                if header.is_control:
                    tally.control_records += header.record_count
                else:
                    yield _Batch(header, view[: header.size_bytes], position)
        expected = header.next_offset
        position += header.size_bytes
    if position < wanted.size and expected < wanted.next_offset:
        _bury_wanted(tally, _dead_rest(position, expected, wanted), wanted)


def _bury_wanted(tally: Tally, dead: Dead, wanted: Range) -> None:
    if dead.last_offset >= wanted.start and dead.first_offset < wanted.end:
        tally.bury(dead)


def _window(source: Bytestream, position: int) -> memoryview:
    """Holds the batch that begins there, if the source does."""
    view = memoryview(source.read(position, WINDOW_BYTES))
    size = _size_of(view)
    if len(view) < size <= source.size - position:
        view = memoryview(source.read(position, size))
    return view


def _size_of(view: memoryview) -> int:
    """Of the batch that begins here; of a header where that is not known yet."""
    if len(view) < HEADER_BYTES:
        return HEADER_BYTES
    return max(parse_header(view).size_bytes, HEADER_BYTES)


def _checked(view: memoryview, expected: int, wanted: Range) -> BatchHeader:
    header = validate_stored(view)
    if header.base_offset < expected or header.next_offset > wanted.next_offset:
        raise CorruptBatch(
            f"it has the offsets [{header.base_offset}, {header.next_offset}), "
            f"where [{expected}, {wanted.next_offset}) are due",
            position=0,
        )
    return header


def _believable(view: memoryview, expected: int, wanted: Range) -> BatchHeader | None:
    """The header of a batch that is wrong inside: its length and offsets make sense."""
    try:
        header = parse_header(view)
    except TruncatedBatch:
        return None
    is_sized = header.magic == MAGIC and HEADER_BYTES <= header.size_bytes <= len(view)
    is_placed = expected <= header.base_offset and header.next_offset <= wanted.next_offset
    is_counted = 0 <= header.record_count <= header.last_offset_delta + 1
    return header if is_sized and is_placed and is_counted else None


def _dead_batch(batch: _Batch, reason: str) -> Dead:
    header = batch.header
    return Dead(
        first_offset=header.base_offset,
        last_offset=header.last_offset,
        records=header.record_count,
        position=batch.position,
        reason=reason,
        batch=bytes(batch.data),
    )


def _dead_place(
    source: Bytestream, position: int, expected: int, wanted: Range, reason: str
) -> Dead:
    next_offset, end = _next_place(position, wanted, source.size)
    return Dead(
        first_offset=expected,
        last_offset=max(next_offset - 1, expected),
        records=max(next_offset - expected, 0),
        position=position,
        reason=reason,
        batch=bytes(source.read(position, min(end - position, DEAD_BYTES_MAX))),
    )


def _dead_rest(position: int, expected: int, wanted: Range) -> Dead:
    """What a source lacks that was cut off between two batches."""
    return Dead(
        first_offset=expected,
        last_offset=wanted.next_offset - 1,
        records=wanted.next_offset - expected,
        position=position,
        reason=f"it ends at position {position} of {wanted.size}",
        batch=b"",
    )


def _next_place(position: int, wanted: Range, size: int) -> tuple[int, int]:
    """Offset and position of the next batch that is known to begin somewhere in the source."""
    for sample in wanted.samples:
        if position < sample.position < size:
            return sample.offset, sample.position
    return wanted.next_offset, size
