"""Which bytes a read needs: from a span of offsets and what is pinned of a partition to slices.

Pure. A span `[start, end)` is cut into slices that tile it: Parquet files where the table covers
it, raw segments where it does not (behind its watermark, mostly), and the hot tail behind the
bucket's end. Files count by the offsets that they cover, not by those of their rows: a file whose
covered range lies inside the span is read whole, one that sticks out is a boundary file and its
rows are filtered. So each record comes once, whatever was converted meanwhile.

Invariant: slices of one partition rise, touch, and their union is the span, but for offsets that
were deleted before they were uploaded (the manifest's skips).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tierlog.spark.bounds import PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFile:
    """A file of a table. `[start, end)` are the offsets that it covers."""

    key: str
    """From the store's own prefix on."""
    start: int
    end: int
    rows: int
    size: int
    row_groups: int = 1
    times: tuple[int, int] | None = None
    """The earliest and the latest of its rows, in milliseconds; None: not known, or no rows."""
    dead_records: int = 0
    """Of the offsets that it covers, records that could not be converted."""
    dead_keys: tuple[str, ...] = ()
    """The files that say which, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSegment:
    """A segment object, as its entry in the manifest has it."""

    key: str
    start: int
    end: int
    records: int
    size: int
    """Of its batches."""
    samples: tuple[tuple[int, int], ...] = ()
    """Offsets where batches begin, and their positions; rising."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSlice:
    name: PartitionName
    start: int
    end: int
    file: ParquetFile

    @property
    def is_whole(self) -> bool:
        return self.start == self.file.start and self.end == self.file.end


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSlice:
    name: PartitionName
    start: int
    end: int
    segment: RawSegment

    @property
    def position(self) -> int:
        """Where reading begins: a batch that begins at or before the first offset."""
        before = (at for offset, at in self.segment.samples if offset <= self.start)
        return max(before, default=0)

    @property
    def position_end(self) -> int:
        """Where it ends at the latest: a batch that begins at or behind the end, or all."""
        behind = (at for offset, at in self.segment.samples if offset >= self.end)
        return min(behind, default=self.segment.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class HotSlice:
    """Asked of a broker."""

    name: PartitionName
    start: int
    end: int


Slice: TypeAlias = ParquetSlice | RawSlice | HotSlice


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets of a partition, and where its bucket ends."""

    name: PartitionName
    start: int
    end: int
    bucket_end: int

    @property
    def cold(self) -> tuple[int, int]:
        return self.start, max(self.start, min(self.end, self.bucket_end))


def uncovered(start: int, end: int, files: Iterable[ParquetFile]) -> Iterator[tuple[int, int]]:
    """What the files leave of `[start, end)`, in order. They rise and do not overlap."""
    at = start
    for file in files:
        if file.end <= at or file.start >= end:
            continue
        if file.start > at:
            yield at, file.start
        at = file.end
    if at < end:
        yield at, end


def slices_of(
    span: Span, files: Sequence[ParquetFile], segments: Sequence[RawSegment]
) -> list[Slice]:
    """`segments` are those that hold what `uncovered` names; more do not matter."""
    start, end = span.cold
    found: list[Slice] = [
        ParquetSlice(name=span.name, start=low, end=high, file=file)
        for file in files
        if (low := max(start, file.start)) < (high := min(end, file.end))
    ]
    for gap_start, gap_end in uncovered(start, end, files):
        found += (
            RawSlice(name=span.name, start=low, end=high, segment=segment)
            for segment in segments
            if (low := max(gap_start, segment.start)) < (high := min(gap_end, segment.end))
        )
    found.sort(key=lambda one: one.start)
    if span.end > max(span.bucket_end, span.start):
        hot_start = max(span.bucket_end, span.start)
        found.append(HotSlice(name=span.name, start=hot_start, end=span.end))
    return found


def split(one: Slice, offsets_max: int) -> list[Slice]:
    """The slice in pieces of at most so many offsets, for more tasks."""
    return [
        _part(one, low, min(low + offsets_max, one.end))
        for low in range(one.start, one.end, offsets_max)
    ]


def _part(one: Slice, start: int, end: int) -> Slice:
    if isinstance(one, ParquetSlice):
        return ParquetSlice(name=one.name, start=start, end=end, file=one.file)
    if isinstance(one, RawSlice):
        return RawSlice(name=one.name, start=start, end=end, segment=one.segment)
    return HotSlice(name=one.name, start=start, end=end)


def divided(
    slices: Sequence[Slice], *, partitions_min: int | None, records_max: int | None
) -> list[Slice]:
    """At least so many slices, of at most so many offsets: as Kafka's source, by size. Never
    smaller than one offset."""
    total = sum(one.end - one.start for one in slices)
    if records_max is not None:
        slices = [part for one in slices for part in split(one, records_max)]
    if partitions_min is not None and len(slices) < partitions_min and total:
        share = max(1, total // partitions_min)
        slices = [part for one in slices for part in split(one, share)]
    return list(slices)


TASK_BYTES = 64 << 20
"""Slices are read by one task up to here: a task for each of a thousand small segments would take
longer to start than to run."""


def tasks_of(
    slices: Sequence[Slice], *, partitions_min: int | None, records_max: int | None
) -> list[tuple[Slice, ...]]:
    """What each task reads: neighbours together, unless the query says how fine it wants it."""
    parts = divided(slices, partitions_min=partitions_min, records_max=records_max)
    if partitions_min is not None or records_max is not None:
        return [(one,) for one in parts]
    found: list[list[Slice]] = []
    size = 0
    for one in parts:
        own = bytes_of(one)
        if not found or size + own > TASK_BYTES or isinstance(one, HotSlice):
            found.append([])
            size = 0
        found[-1].append(one)
        size += own
    return [tuple(some) for some in found]


def bytes_of(one: Slice) -> int:
    """About as many are read for it; of the hot tail nobody knows."""
    if isinstance(one, ParquetSlice):
        return one.file.size * (one.end - one.start) // max(1, one.file.end - one.file.start)
    return one.position_end - one.position if isinstance(one, RawSlice) else 0
