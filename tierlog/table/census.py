"""Which objects of a table its TABLE accounts for: the census of a bucket asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.cold.census import TableKeys
from tierlog.table.reading import TableReader, read_table

if TYPE_CHECKING:
    from tierlog.cold.layout import PartitionKeys
    from tierlog.objectstore.port import ObjectStore


async def table_keys(store: ObjectStore, keys: PartitionKeys) -> TableKeys:
    """Relative to the partition. Raises `ColdError`, and what the store does."""
    table = await read_table(store, keys)
    if table is None:
        return TableKeys()
    files = await TableReader(store, keys, table).all_files()
    return TableKeys(
        files=frozenset(key for one in files for key in one.keys),
        pages=frozenset(one.key for one in table.pages),
        garbage=frozenset(one.key for one in table.garbage),
    )
