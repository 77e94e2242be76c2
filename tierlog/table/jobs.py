"""The work of a converter that keeps a processor busy: for a worker process, or a thread.

`convert` reads segments that lie on the local disk and writes one Parquet file beside them, and the
dead letters; `merge` makes one file of several, row by row the same. Plans and results can be told
to another process. Nothing here asks the store or decides what is published.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tierlog.env import LocalDisk
from tierlog.env.compiling import yield_to_others
from tierlog.table.parquet import GROUP_ROWS, DeadWriter, RowsWriter, Sink, regrouped
from tierlog.table.plans import ConvertPlan, Made, MergePlan, RawPart
from tierlog.table.scan import Dead, Tally, scan
from tierlog.table.schema import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.env import Disk
    from tierlog.table.plans import DeadFile
    from tierlog.types import Bytes

NICE = 10
"""Beside that of worker processes: what nobody else wants of the processor."""

_is_nice = False


def convert_local(plan: ConvertPlan) -> Made:
    _begin_worker()
    return convert(LocalDisk(), plan)


def merge_local(plan: MergePlan) -> Made:
    _begin_worker()
    return merge(LocalDisk(), plan)


def _begin_worker() -> None:
    """One processor at most, and last in the queue for it."""
    global _is_nice
    if not _is_nice:
        _is_nice = True
        yield_to_others(NICE)
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)


def convert(disk: Disk, plan: ConvertPlan) -> Made:
    dead = DeadWriter(disk, plan.dead_out)
    writer = RowsWriter(Sink(disk, plan.out), plan.about)
    tallies: list[Tally] = []
    try:
        for rows in regrouped(_converted(disk, plan, dead, tallies)):
            writer.write(rows)
        control_records = sum(one.control_records for one in tallies)
        writer.finish(control_records=control_records, dead_records=dead.records)
    finally:
        writer.close()
        dead.close()
    return _made(writer, control_records=control_records, dead=dead.finish())


def _converted(
    disk: Disk, plan: ConvertPlan, dead: DeadWriter, tallies: list[Tally]
) -> Iterator[pa.RecordBatch]:
    """The rows of all parts, each with its tally."""
    for part in plan.parts:
        if part.missing:
            dead.write(part.source, [_lost(part)])
            continue
        tallies.append(Tally(spill=partial(dead.write, part.source)))
        yield from _scanned(disk, part, tallies[-1])


def _lost(part: RawPart) -> Dead:
    wanted = part.wanted
    return Dead(wanted.start, wanted.end - 1, part.records, 0, part.missing, b"")


def _scanned(disk: Disk, part: RawPart, tally: Tally) -> Iterator[pa.RecordBatch]:
    source = _OnDisk(disk, part.path, part.size)
    try:
        yield from scan(source, part.wanted, tally)
    finally:
        source.close()


class _OnDisk:
    """Implements `Bytestream`."""

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self._file = disk.open(path)
        self.size = min(size, self._file.size())

    def read(self, position: int, size: int) -> Bytes:
        return self._file.pread(max(0, min(size, self.size - position)), position)

    def close(self) -> None:
        self._file.close()


def merge(disk: Disk, plan: MergePlan) -> Made:
    writer = RowsWriter(Sink(disk, plan.out), plan.about)
    try:
        for rows in regrouped(_rows_of(disk, plan.paths)):
            writer.write(rows)
        writer.finish(control_records=plan.control_records, dead_records=plan.dead_records)
    finally:
        writer.close()
    return _made(writer, control_records=plan.control_records)


def _rows_of(disk: Disk, paths: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with pq.ParquetFile(pa.BufferReader(_whole(disk, path))) as file:
            for batch in file.iter_batches(batch_size=GROUP_ROWS, use_threads=False):
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(
                        [batch.column(name).cast(SCHEMA.field(name).type) for name in SCHEMA.names],
                        schema=SCHEMA,
                    )


def _whole(disk: Disk, path: str) -> bytes:
    """Small ones: what is merged is far smaller than what comes of it."""
    file = disk.open(path)
    try:
        return bytes(file.pread(file.size(), 0))
    finally:
        file.close()


def _made(writer: RowsWriter, *, control_records: int, dead: DeadFile | None = None) -> Made:
    return Made(
        size=writer.sink.size,
        sha256=writer.sink.sha256,
        crc32c=writer.sink.crc32c,
        rows=writer.rows,
        row_groups=writer.row_groups,
        plain_bytes=writer.plain_bytes,
        min_timestamp=writer.min_timestamp,
        max_timestamp=writer.max_timestamp,
        control_records=control_records,
        dead=dead,
    )
