"""What a Parquet file of a table says of itself, from its end alone: no row is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tierlog.cold.errors import ColdCorrupt

if TYPE_CHECKING:
    from tierlog.objectstore.port import ObjectStore

END = ".parquet"
TAIL_BYTES = 64 << 10
"""Of the first GET; the footers of most files are shorter."""
FOOTER_BYTES_MAX = 64 << 20
MAGIC = b"PAR1"
_ARROW_SCHEMA = b"ARROW:schema"
"""The columns once more, packed."""


def is_parquet(key: str) -> bool:
    return key.endswith(END)


async def read_about(store: ObjectStore, key: str) -> dict[str, Any]:
    """Fields for people and scripts. Raises `ColdCorrupt`, and what the store does."""
    tail = bytes((await store.get_tail(key, TAIL_BYTES)).data)
    size = int.from_bytes(tail[-8:-4], "little") + 8
    if tail[-4:] != MAGIC or size > FOOTER_BYTES_MAX:
        raise ColdCorrupt(key, "it does not end as a Parquet file does")
    if size > len(tail):
        tail = bytes((await store.get_tail(key, size)).data)
    try:
        return _values(pq.read_metadata(pa.BufferReader(tail)))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as fault:
        raise ColdCorrupt(key, f"its Parquet footer cannot be read: {fault}") from fault


def _values(metadata: pq.FileMetaData) -> dict[str, Any]:
    told = metadata.metadata or {}
    return {
        "kind": "parquet",
        "rows": metadata.num_rows,
        "row_groups": metadata.num_row_groups,
        "columns": metadata.schema.to_arrow_schema().names,
        "parquet_version": metadata.format_version,
        "created_by": metadata.created_by,
        **{name.decode(): told[name].decode() for name in told if name != _ARROW_SCHEMA},
    }
