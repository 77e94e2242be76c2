"""Parquet files of a table: rows of schema v1, and dead letters.

The settings are those of `docs/format/table.md`. What is written is a function of the rows, the
metadata and the version of pyarrow: the same twice. Row groups are the groups that come in.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from crc32c import crc32c

from tierlog.table.plans import DeadFile
from tierlog.table.schema import DEAD_SCHEMA, SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tierlog.env import Disk
    from tierlog.table.plans import About
    from tierlog.table.scan import Dead

GROUP_ROWS = 128 << 10
GROUP_BYTES = 96 << 20
"""Of a row group: its columns, in memory; or one piece that is larger."""
ZSTD_LEVEL = 1
"""Faster than 3, and not larger, on what was measured (`docs/adr/0018-table.md`)."""
BLOOM_FPP = 0.01
SINK_BYTES = 1 << 20

DICTIONARIES = [
    "key",
    "timestampType",
    "topic",
    "partition",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "headers.list.element.key",
]
RISING = ("offset", "timestamp", "sequence", "batch_base_offset")
DELTAS = dict.fromkeys(RISING, "DELTA_BINARY_PACKED")
STATISTICS = [one.name for one in SCHEMA if one.name not in ("value", "headers")]
"""The least and greatest value would cost bytes in every footer and prune nothing."""


class Sink:
    """A local file that is written once from its beginning to its end, hashed on the way.

    A file object as pyarrow wants it.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._file = disk.open(path, create=True)
        self._file.truncate(0)
        self._sha256 = sha256()
        self._held = bytearray()
        self._written = 0
        self.size = 0
        self.crc32c = 0
        self.closed = False

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.size += len(view)
        self._held += view
        if len(self._held) >= SINK_BYTES:
            self._write_held()
        return len(view)

    def _write_held(self) -> None:
        """Pages come in bytes and in megabytes: the disk gets them in large pieces."""
        rest = memoryview(self._held)
        self._held = bytearray()
        self._sha256.update(rest)
        self.crc32c = crc32c(rest, self.crc32c)
        while rest:
            written = self._file.pwrite(rest, self._written)
            rest, self._written = rest[written:], self._written + written

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Nobody reads it before it is closed."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            try:
                self._write_held()
            finally:
                self._file.close()


class RowsWriter:
    """One file of rows. `close` must be called, also after a failure."""

    def __init__(self, sink: Sink, about: About) -> None:
        self.sink = sink
        self.rows = 0
        self.row_groups = 0
        self.plain_bytes = 0
        self.min_timestamp = self.max_timestamp = -1
        self._about = about
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """One row group, of however many pieces."""
        if self._writer is None:
            self._writer = self._open(int(pc.count_distinct(rows.column("key")).as_py()))
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
        times = pc.min_max(rows.column("timestamp").cast(pa.int64())).as_py()
        earliest, latest = times["min"] // 1000, times["max"] // 1000
        is_first = not self.rows
        self.min_timestamp = earliest if is_first else min(self.min_timestamp, earliest)
        self.max_timestamp = latest if is_first else max(self.max_timestamp, latest)
        self.rows += rows.num_rows
        self.row_groups += 1
        self.plain_bytes += _binary_bytes(rows)

    def finish(self, *, control_records: int, dead_records: int) -> None:
        if self._writer is None:
            self._writer = self._open(0)
        counts = {
            "rows": self.rows,
            "control_records": control_records,
            "dead_records": dead_records,
        }
        self._writer.add_key_value_metadata(self._about.metadata(**counts))
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self.sink.close()

    def _open(self, keys: int) -> pq.ParquetWriter:
        """`keys`: how many different ones a row group has, as far as the first tells."""
        bloom = {"key": {"ndv": min(2 * keys, GROUP_ROWS), "fpp": BLOOM_FPP}} if keys else None
        return pq.ParquetWriter(
            pa.PythonFile(self.sink, mode="w"),
            SCHEMA,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=DICTIONARIES,
            column_encoding=DELTAS,
            write_statistics=STATISTICS,
            write_page_index=True,
            bloom_filter_options=bloom,
            sorting_columns=[pq.SortingColumn(SCHEMA.get_field_index("offset"))],
            store_schema=False,
        )


def _binary_bytes(rows: pa.Table) -> int:
    lengths = (pc.sum(pc.binary_length(rows.column(name))).as_py() for name in ("key", "value"))
    return sum(one or 0 for one in lengths)


class DeadWriter:
    """The file of what could not be converted; none, while there is nothing. `close` must be
    called."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.batches = 0
        self.records = 0
        self._disk = disk
        self._path = path
        self._sink: Sink | None = None
        self._writer: pq.ParquetWriter | None = None

    def write(self, source: str, letters: Sequence[Dead]) -> None:
        """One row group: the key of the source, and what it had."""
        if self._writer is None:
            self._sink = Sink(self._disk, self._path)
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._sink, mode="w"),
                DEAD_SCHEMA,
                compression="zstd",
                compression_level=ZSTD_LEVEL,
                store_schema=False,
            )
        rows = [one._asdict() | {"source": source} for one in letters]
        self._writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=DEAD_SCHEMA))
        self.batches += len(letters)
        self.records += sum(one.records for one in letters)

    def finish(self) -> DeadFile | None:
        self.close()
        if self._sink is None:
            return None
        sink = self._sink
        return DeadFile(sink.size, sink.sha256, sink.crc32c, self.batches, self.records)

    def close(self) -> None:
        if self._writer is not None and self._sink is not None:
            self._writer.close()
            self._sink.close()


def regrouped(
    batches: Iterable[pa.RecordBatch], *, rows_max: int = GROUP_ROWS, bytes_max: int = GROUP_BYTES
) -> Iterator[pa.Table]:
    """The same rows in groups that are as full as they may be, by rows and by bytes. Nothing is
    copied."""
    held: list[pa.RecordBatch] = []
    count = size = 0
    for whole in batches:
        batch = whole
        while batch.num_rows:
            if held and (count >= rows_max or size + batch.nbytes > bytes_max):
                yield pa.Table.from_batches(held)
                held, count, size = [], 0, 0
            part = batch.slice(0, rows_max - count)
            batch = batch.slice(part.num_rows)
            held.append(part)
            count, size = count + part.num_rows, size + part.nbytes
    if held:
        yield pa.Table.from_batches(held)
