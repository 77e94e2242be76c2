"""The files of a table as a plan needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.spark.plan import ParquetFile
from tierlog.table.reading import TableReader
from tierlog.types import Offset

if TYPE_CHECKING:
    from tierlog.cold.layout import PartitionKeys
    from tierlog.objectstore.port import ObjectStore
    from tierlog.table.manifest import Table, TableFile


async def files_between(
    store: ObjectStore, keys: PartitionKeys, table: Table | None, *, start: int, end: int
) -> list[ParquetFile]:
    """Those that cover offsets of `[start, end)`, in order; other pages are not read."""
    if table is None:
        return []
    found = await TableReader(store, keys, table).files(Offset(start), Offset(end))
    return [_file(keys, one) for one in found]


def _file(keys: PartitionKeys, one: TableFile) -> ParquetFile:
    return ParquetFile(
        key=keys.full(one.key),
        start=one.start,
        end=one.end,
        rows=one.rows,
        size=one.size,
        row_groups=max(1, one.row_groups),
        times=(one.min_timestamp, one.max_timestamp) if one.rows else None,
        dead_records=one.dead_records,
        dead_keys=tuple(keys.full(letters.key) for letters in one.dead),
    )
