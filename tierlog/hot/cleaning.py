"""The two passes of a cleaning: where the last record of each key stands, and the segments anew.

Both are generators that yield after every piece of work how many bytes it read and wrote: run in a
thread, piece by piece, so that neither the loop nor a sync job waits for a large log, and whoever
drives them may rest in between. They have files of their own and share nothing with the log.

A record goes when a later one has its key, or when it is a tombstone whose delete horizon has
passed (KIP-534: that moment is written into the batch by the cleaning that first makes it clean,
`delete.retention.ms` ahead). Batches keep their offsets. One that is left without records stays,
empty, if it is its producer's last (what the partition remembers of the producer can be rebuilt
from it) or the last of the new segment (the segment ends where it ended, so that a segment that is
missing behind it is noticed). Batches that nobody can decode and control batches stay as they are.

Every batch that is read is checked. At one that is not sound the cleaning stops (`CorruptBatch`)
and the log stays as it is: what is damaged is not for a cleaner to throw away.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

from tierlog.env import Disk, File
from tierlog.hot import names, smallfile
from tierlog.hot.indexes import SegmentIndexes
from tierlog.hot.keymap import KeyMap
from tierlog.hot.scan import Scanned, walk
from tierlog.hot.segment import Segment, SegmentNumbers
from tierlog.hot.swapping import make_ready
from tierlog.records.errors import BatchError, CorruptBatch, TruncatedBatch
from tierlog.records.header import BatchHeader, parse_header
from tierlog.records.keyed import KeyedRecord, Skimmed, emptied, skim_batch, without_others
from tierlog.types import Bytes, Offset, Position, ProducerId, TimestampMs

T = TypeVar("T")

PIECE_BYTES = 256 << 10
"""Some ten milliseconds of small records."""
POSITION_MAX = 2**32 - 1
"""The index has 32 bits for it. A group has 1 GiB at most, and no record grows by more than it is
long: reached by nothing but compression that we cannot match."""
TIME_MAX = 2**63 - 1

Steps: TypeAlias = Generator[int, None, T]
Batch: TypeAlias = tuple[BatchHeader, memoryview]


class Cleaned(NamedTuple):
    """What came out of a group of segments."""

    numbers: SegmentNumbers
    read_bytes: int
    dropped_records: int
    is_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one round of a cleaning goes by."""

    keys: KeyMap
    end: Offset
    """Up to here the map knows the keys; what lies behind stays as it is."""
    now_ms: int
    delete_retention_ms: int
    producer_ends: Mapping[ProducerId, Offset]
    """Of each producer that the partition remembers, the last offset of its last batch."""

    def kept_of(self, skimmed: Skimmed) -> list[KeyedRecord]:
        """Without a key nothing could ever replace a record: those of a topic that was not always
        compacted go, as in Kafka."""
        header, _, records = skimmed
        keeps_tombstones = not header.has_delete_horizon or self.now_ms < header.base_timestamp
        last = self.keys.last
        return [
            one
            for one in records
            if one.key is not None
            and (one.has_value or keeps_tombstones)
            and last(one.key) <= one.offset
        ]

    def horizon_for(self, header: BatchHeader, kept: Sequence[KeyedRecord]) -> TimestampMs | None:
        """When the tombstones of a batch may go, if nobody has said so yet."""
        if header.has_delete_horizon or all(one.has_value for one in kept):
            return None
        return TimestampMs(min(self.now_ms + self.delete_retention_ms, TIME_MAX))

    def is_producers_last(self, header: BatchHeader) -> bool:
        return self.producer_ends.get(header.producer_id) == header.last_offset

    def cleaned(self, header: BatchHeader, batch: Bytes) -> tuple[Bytes | None, int]:
        """The batch as it should be, None if it is to go; and how many records went."""
        if header.base_offset >= self.end or header.is_control:
            return batch, 0
        try:
            skimmed = skim_batch(batch)
        except BatchError:
            return batch, 0  # Its producer wrote garbage under a right CRC: not for us to judge.
        kept = self.kept_of(skimmed)
        dropped = len(skimmed.records) - len(kept)
        if not kept:
            stays = self.is_producers_last(header)
            if not skimmed.records:
                return batch if stays else None, 0
            return emptied(header) if stays else None, dropped
        horizon = self.horizon_for(header, kept)
        if not dropped and horizon is None:
            return batch, 0
        return without_others(skimmed, kept, delete_horizon_ms=horizon), dropped


def map_keys(
    disk: Disk, segments: Sequence[Segment], keys: KeyMap, *, start: Offset, end: Offset
) -> Steps[Offset]:
    """Note the last place of every key in [start, end); returns how far the map had room."""
    for segment in segments:
        if segment.next_offset <= start or segment.base_offset >= end:
            continue
        for piece in pieces(disk, segment):
            for header, batch in piece:
                if header.last_offset < start:
                    continue
                if not keys.has_room(header.record_count):
                    return header.base_offset
                note_keys(keys, header, batch)
            yield sum(header.size_bytes for header, _ in piece)
    return end


def note_keys(keys: KeyMap, header: BatchHeader, batch: Bytes) -> None:
    if header.is_control:
        return
    try:
        records = skim_batch(batch).records
    except BatchError:
        return
    for one in records:
        if one.key is not None:
            keys.note(one.key, one.offset)


def rewrite(disk: Disk, directory: str, group: Sequence[Segment], sweep: Sweep) -> Steps[Cleaned]:
    """Write the group's segments anew as one, ready to be swapped in if anything has changed."""
    output = _Output(disk, directory, group[0])
    changed = len(group) > 1
    read_bytes = dropped_records = 0
    gone: BatchHeader | None = None
    """The batch before this one, if it went: were it the last, its place has to be kept."""
    with closing(output):
        for segment in group:
            for piece in pieces(disk, segment):
                moved = output.size
                for header, batch in piece:
                    cleaned, dropped = sweep.cleaned(header, batch)
                    dropped_records += dropped
                    read_bytes += header.size_bytes
                    changed = changed or gone is not None
                    gone = header if cleaned is None else None
                    if cleaned is not None:
                        changed = changed or cleaned is not batch
                        output.add(header, cleaned)
                output.flush()
                yield sum(header.size_bytes for header, _ in piece) + output.size - moved
        if gone is not None:
            output.add(gone, emptied(gone))
            output.flush()
            changed = changed or gone.record_count > 0
        numbers = output.numbers(group)
        if changed:
            output.finish()
    if changed:
        make_ready(disk, directory, numbers.base_offset)
    return Cleaned(numbers, read_bytes, dropped_records, changed)


class _Output:
    """The new segment, as `.cleaned` files beside the old ones."""

    def __init__(self, disk: Disk, directory: str, first: Segment) -> None:
        self._disk = disk
        self._directory = directory
        self._base = first.base_offset
        self._file = self._open()
        self._buffer = bytearray()
        self._written = 0
        self._indexes = SegmentIndexes(first.base_offset, interval_bytes=first.interval_bytes)

    def _open(self) -> File:
        file = self._disk.open(self._path(names.LOG), create=True)
        try:
            file.truncate(0)
        except OSError:
            file.close()
            raise
        return file

    def _path(self, kind: str) -> str:
        return names.segment_path(self._directory, self._base, kind) + names.CLEANED

    @property
    def size(self) -> Position:
        return Position(self._written + len(self._buffer))

    def add(self, header: BatchHeader, batch: Bytes) -> None:
        """A batch that was `header`'s, with as many of its records as are left."""
        position = self.size
        if position + len(batch) > POSITION_MAX:
            raise CorruptBatch(f"the cleaned segment {self._base} grows beyond {POSITION_MAX}")
        timestamp = parse_header(batch).max_timestamp
        self._indexes.note(position, len(batch), header.last_offset, timestamp)
        self._buffer += batch

    def flush(self) -> None:
        view = memoryview(bytes(self._buffer))
        self._buffer.clear()
        written = 0
        while written < len(view):
            written += self._file.pwrite(view[written:], self._written + written)
        self._written += len(view)

    def numbers(self, group: Sequence[Segment]) -> SegmentNumbers:
        return SegmentNumbers(
            self._base,
            group[-1].next_offset,
            self.size,
            self._indexes.max_timestamp,
            self._indexes.max_timestamp_offset,
            max(segment.first_append_ms for segment in group),
        )

    def finish(self) -> None:
        """Everything is on the disk; its names are not yet."""
        self._file.fdatasync()
        contents = self._indexes.to_bytes()
        for kind, content in zip((names.INDEX, names.TIME_INDEX), contents, strict=True):
            smallfile.write_all(self._disk, self._path(kind), content)

    def close(self) -> None:
        self._file.close()


def pieces(disk: Disk, segment: Segment) -> Iterator[list[Batch]]:
    """The batches of a segment, checked, some at a time. `CorruptBatch` where one is not sound."""
    with closing(disk.open(segment.path)) as file:
        position, expected, wanted = Position(0), segment.base_offset, PIECE_BYTES
        while position < segment.size:
            data = memoryview(file.pread(min(wanted, segment.size - position), position))
            found, state = _checked(data, at=position, expected=expected)
            if found:
                yield found
                position, expected, wanted = state.position, state.next_offset, PIECE_BYTES
                continue
            needed = state.fault.needed if isinstance(state.fault, TruncatedBatch) else 0
            if needed <= len(data) or position + needed > segment.size:
                raise state.fault or CorruptBatch(f"{segment.path} ends at {position}")
            wanted = needed
    if expected != segment.next_offset:
        raise CorruptBatch(f"{segment.path} ends with {expected}, not {segment.next_offset}")


def _checked(data: memoryview, *, at: Position, expected: Offset) -> tuple[list[Batch], Scanned]:
    """The whole batches that `data` begins with, and where that stopped."""
    found: list[Batch] = []

    def visit(header: BatchHeader, position: Position) -> None:
        found.append((header, data[position - at : position - at + header.size_bytes]))

    return found, walk(data, at=at, expected=expected, contiguous=False, visit=visit)
