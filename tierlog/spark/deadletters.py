"""How many records of a part of a Parquet file could not be converted, as its dead letters say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from tierlog.objectstore.port import ObjectStore
    from tierlog.spark.plan import ParquetSlice

COLUMNS = ["first_offset", "last_offset", "records"]


async def records_between(store: ObjectStore, one: ParquetSlice) -> int:
    """At most: a letter that the slice cuts counts whole."""
    found = 0
    for key in one.file.dead_keys:
        data = (await store.get(key)).data
        letters = pq.read_table(pa.BufferReader(data), columns=COLUMNS).to_pylist()
        found += sum(
            letter["records"]
            for letter in letters
            if letter["last_offset"] >= one.start and letter["first_offset"] < one.end
        )
    return found
