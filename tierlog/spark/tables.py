"""The table of a partition as a read needs it: TABLE, and the files that hold some offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.objectstore.errors import NoSuchObject
from tierlog.spark.plan import ParquetFile
from tierlog.table import codec
from tierlog.table.manifest import FilePageRef, Skip, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierlog.cold.layout import PartitionKeys
    from tierlog.objectstore.port import ObjectStore
    from tierlog.table.manifest import Table, TableFile


async def read_table(store: ObjectStore, keys: PartitionKeys) -> Table | None:
    """None: nothing was converted yet."""
    try:
        got = await store.get(keys.table)
    except NoSuchObject:
        return None
    return codec.decode_table(got.data, key=keys.table)


async def files_between(
    store: ObjectStore, keys: PartitionKeys, table: Table | None, *, start: int, end: int
) -> list[ParquetFile]:
    """Those that cover offsets of `[start, end)`, in order; other pages are not read."""
    found: list[ParquetFile] = []
    for row in () if table is None else rows_of(table):
        if row.end <= start or row.start >= end or isinstance(row, Skip):
            continue
        if isinstance(row, FilePageRef):
            page = codec.open_page(row, (await store.get(keys.full(row.key))).data)
            found += _covering(keys, page.files, start, end)
        else:
            found += _covering(keys, [row], start, end)
    return found


def _covering(
    keys: PartitionKeys, files: Iterable[TableFile], start: int, end: int
) -> list[ParquetFile]:
    return [
        ParquetFile(
            key=keys.full(one.key),
            start=one.start,
            end=one.end,
            rows=one.rows,
            size=one.size,
            row_groups=max(1, one.row_groups),
            times=(one.min_timestamp, one.max_timestamp) if one.rows else None,
        )
        for one in files
        if one.start < end and one.end > start
    ]
