"""Files of a table by offset and time."""

from dataclasses import replace

import pytest

from tests.cold.makers import TOPIC_ID
from tests.table.makers import START_MS, a_file, a_table
from tierlog.cold.errors import InvariantBroken
from tierlog.cold.layout import PartitionKeys
from tierlog.env import SystemClock
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.memory import MemoryStore
from tierlog.table import codec
from tierlog.table.keys import page_key
from tierlog.table.manifest import FilePage, Table
from tierlog.table.reading import Times, open_table, read_table
from tierlog.types import Offset, TimestampMs

KEYS = PartitionKeys("c/", TOPIC_ID, 7)


async def a_store() -> tuple[MemoryStore, Table]:
    """Four files of ten offsets, the first two in a page."""
    files = [a_file(start, start + 10) for start in range(0, 40, 10)]
    store = MemoryStore(SystemClock())
    page = FilePage(topic_id=TOPIC_ID, partition=7, files=tuple(files[:2]))
    data = codec.encode_page(page)
    ref = codec.refer(page, key=page_key(start=Offset(0), attempt=1), data=data)
    table = replace(a_table(files), pages=(ref,), files=tuple(files[2:]))
    await store.put(KEYS.full(ref.key), BytesBody(data))
    await store.put(KEYS.table, BytesBody(codec.encode_table(table)))
    return store, table


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 40, [0, 10, 20, 30]),
        (9, 10, [0]),
        (10, 21, [10, 20]),
        (39, 99, [30]),
        (40, 99, []),
        (5, 5, []),
    ],
)
async def test_files_are_found_by_covered_offsets(start: int, end: int, found: list[int]) -> None:
    store, _ = await a_store()
    reader = await open_table(store, KEYS)
    assert reader is not None
    files = await reader.files(Offset(start), Offset(end))
    assert [one.start for one in files] == found


async def test_files_are_found_by_time() -> None:
    store, _ = await a_store()
    reader = await open_table(store, KEYS)
    assert reader is not None
    times = Times(TimestampMs(START_MS + 10), TimestampMs(START_MS + 30))
    assert [one.start for one in await reader.files(Offset(0), Offset(99), times=times)] == [10, 20]


async def test_without_a_table_there_is_none() -> None:
    assert await read_table(MemoryStore(SystemClock()), KEYS) is None


async def test_a_table_with_a_gap_is_not_believed() -> None:
    store, table = await a_store()
    wrong = replace(table, files=table.files[1:])
    await store.put(KEYS.table, BytesBody(codec.encode_table(wrong)))
    with pytest.raises(InvariantBroken, match="tiling"):
        await read_table(store, KEYS)
