"""An object of the bucket as its content: JSON, or the batches of a segment. Believes nothing.

Memory is bounded whatever the object claims: manifests by what their readers take, segments by one
piece and the largest batch in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.cold import canonical
from tierlog.cold.clusterstate import STATE_BYTES_MAX
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.rebuild import read_footer
from tierlog.objectstore.port import Span
from tierlog.records.batch import validate_stored
from tierlog.records.errors import TruncatedBatch
from tierlog.types import Position

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tierlog.objectstore.port import ObjectStore, Stat
    from tierlog.records.header import BatchHeader
    from tierlog.types import Bytes

PIECE_BYTES = 4 << 20
BATCH_BYTES_MAX = 256 << 20
"""Brokers take no larger request."""
STORED_BYTES_MAX = 64 << 20
"""Of an object that is read whole."""
_GZIP_MAGIC = b"\x1f\x8b"


def of_store(stat: Stat) -> dict[str, object]:
    """What the store says of an object, as a JSON value."""
    return {
        "key": stat.key,
        "size": stat.size,
        "modified_ms": stat.modified_ms,
        "etag": stat.etag,
        "version_id": stat.version_id,
        "crc32c": None if stat.crc32c is None else f"{stat.crc32c:08x}",
    }


async def read_json(store: ObjectStore, key: str) -> object:
    """STATE, HEAD, pages, receipts, `format.json`: packed or plain."""
    stat = await store.head(key)
    if stat.size > STORED_BYTES_MAX:
        raise ColdCorrupt(key, f"it has {stat.size} bytes, at most {STORED_BYTES_MAX} are shown")
    data = bytes((await store.get(key)).data)
    if data.startswith(_GZIP_MAGIC):
        data = canonical.decompress(data, key=key, size_max=STATE_BYTES_MAX)
    return canonical.from_bytes(data, key=key)


async def pieces(store: ObjectStore, key: str, size: int) -> AsyncIterator[Bytes]:
    """The bytes `[0, size)` of an object, in order."""
    for start in range(0, size, PIECE_BYTES):
        end = min(start + PIECE_BYTES, size)
        yield (await store.get(key, span=Span(Position(start), Position(end)))).data


async def batches(
    store: ObjectStore, key: str
) -> AsyncIterator[tuple[Position, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch of a segment object, its CRC checked."""
    size = (await read_footer(store, key)).data_bytes
    rest, position = b"", 0
    async for piece in pieces(store, key, size):
        buffer = memoryview(rest + bytes(piece))
        used = 0
        while used < len(buffer):
            try:
                header = validate_stored(buffer, used)
            except TruncatedBatch as cut:
                _check_may_grow(cut, key, position)
                break
            yield Position(position), header, buffer[used : used + header.size_bytes]
            used += header.size_bytes
            position += header.size_bytes
        rest = bytes(buffer[used:])
    if rest:
        raise ColdCorrupt(key, f"its batches are cut short at position {position}")


def _check_may_grow(cut: TruncatedBatch, key: str, position: int) -> None:
    if cut.needed > BATCH_BYTES_MAX:
        raise ColdCorrupt(key, f"a batch of {cut.needed} bytes at position {position}")
