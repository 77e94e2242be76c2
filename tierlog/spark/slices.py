"""Rows of a slice as Arrow batches: what a task does, on whichever machine it runs.

Needs the bucket, or a broker for the hot tail, and nothing of the driver: a `Reading` says all of
it and is pickled with the slice. Batches are checked by their CRC and their place before they are
decoded. Offsets of a file are sorted, so a boundary file is cut by two searches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tierlog.spark import hottail
from tierlog.spark.columns import arrow_schema, shaped
from tierlog.spark.errors import DataLost
from tierlog.spark.plan import HotSlice, ParquetSlice
from tierlog.spark.segments import batches_from
from tierlog.spark.stores import opened, pulled
from tierlog.table.scan import InMemory, Range, Tally, scan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tierlog.config import Address
    from tierlog.records.header import BatchHeader
    from tierlog.spark.plan import RawSlice, Slice
    from tierlog.spark.stores import StorePlace

GROUP_BYTES = 8 << 20
"""Of batches that are decoded together."""
ROWS_AT_ONCE = 16_384
"""Of a Parquet file, in one Arrow batch: 16 MB of records of a kilobyte."""
OFFSET = "offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How slices are read."""

    place: StorePlace
    columns: tuple[str, ...]
    brokers: tuple[Address, ...] = ()
    fail_on_data_loss: bool = True


def rows_of(reading: Reading, one: Slice) -> Iterator[pa.RecordBatch]:
    """Rows of `[start, end)`, in order."""
    if isinstance(one, ParquetSlice):
        yield from _parquet_rows(reading, one)
        return
    schema = arrow_schema(reading.columns)
    for batch in pulled(lambda: _scanned(reading, one)):
        yield shaped(batch, schema)


# Parquet


def _parquet_rows(reading: Reading, one: ParquetSlice) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(reading.columns)
    columns = list(dict.fromkeys((*reading.columns, OFFSET)))
    filesystem, path = filesystem_of(reading.place, one.file.key)
    with filesystem.open_input_file(path) as source, pq.ParquetFile(source) as file:
        groups = row_groups_between(file.metadata, one.start, one.end)
        for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=columns):
            kept = between(batch, one.start, one.end)
            if kept.num_rows:
                yield shaped(kept, schema)


def filesystem_of(place: StorePlace, key: str) -> tuple[pa.fs.FileSystem, str]:
    """Without any jar: the machine's own disk, or S3 by Arrow, with keys of the usual AWS chain."""
    from pyarrow import fs

    if place.folder is not None:
        return fs.LocalFileSystem(), f"{place.folder.rstrip('/')}/{key}"
    scheme, _, host = place.endpoint.rpartition("://")
    found = fs.S3FileSystem(
        region=place.region or ("us-east-1" if place.endpoint else None),
        **({"endpoint_override": host, "scheme": scheme} if place.endpoint else {}),
    )
    return found, f"{place.url.removeprefix('s3://').rstrip('/')}/{key}"


def row_groups_between(metadata: pq.FileMetaData, start: int, end: int) -> list[int]:
    """Those that may hold offsets of `[start, end)`, as their statistics say."""
    column = metadata.schema.names.index(OFFSET)
    found = []
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(column).statistics
        if statistics is None or (statistics.min < end and statistics.max >= start):
            found.append(number)
    return found


def between(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Rows of a batch whose offsets rise."""
    offsets = batch.column(OFFSET).to_numpy()
    first, last = (int(one) for one in offsets.searchsorted([start, end]))
    return batch.slice(first, last - first)


# Batches


async def _scanned(reading: Reading, one: RawSlice | HotSlice) -> AsyncIterator[pa.RecordBatch]:
    group: list[tuple[BatchHeader, memoryview]] = []
    size = 0
    async for header, data in _batches(reading, one):
        group.append((header, data))
        size += len(data)
        if size >= GROUP_BYTES:
            for batch in _decoded(reading, one, group):
                yield batch
            group, size = [], 0
    for batch in _decoded(reading, one, group):
        yield batch


async def _batches(
    reading: Reading, one: RawSlice | HotSlice
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    """Those that hold offsets of the slice."""
    if isinstance(one, HotSlice):
        async with hottail.connected(reading.brokers) as client:
            async for header, data in hottail.batches_of(
                client, one, fail_on_data_loss=reading.fail_on_data_loss
            ):
                yield header, data
        return
    async with opened(reading.place) as bucket:
        walk = batches_from(bucket.store, one.segment, position=one.position, end=one.position_end)
        async for header, data in walk:
            if header.base_offset >= one.end:
                return
            if header.last_offset >= one.start:
                yield header, data


def _decoded(
    reading: Reading, one: RawSlice | HotSlice, group: list[tuple[BatchHeader, memoryview]]
) -> Iterator[pa.RecordBatch]:
    if not group:
        return
    wanted = Range(
        topic=one.name.topic,
        partition=one.name.partition,
        start=one.start,
        end=one.end,
        base=group[0][0].base_offset,
        next_offset=group[-1][0].next_offset,
    )
    tally = Tally()
    yield from scan(InMemory(b"".join(data for _, data in group)), wanted, tally)
    if tally.dead and reading.fail_on_data_loss:
        dead = tally.dead[0]
        raise DataLost(
            f"{one.name} has records from offset {dead.first_offset} on that cannot be decoded: "
            f"{dead.reason}; failOnDataLoss=false leaves them out"
        )
