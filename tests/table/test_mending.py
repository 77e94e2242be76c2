"""Parquet files that were lost or damaged are made anew from their segments."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cold.tiering import KEYS, bucket_of, eager
from tests.table.tabling import (
    TableNode,
    files_in,
    play_tables,
    rows_in,
    table_in,
    until,
    with_settings,
)
from tierlog.cold.changes import MoveLogStart
from tierlog.objectstore.shelf import Item
from tierlog.table.manifest import TableFile
from tierlog.types import Offset

Items = dict[str, Item]


def lose(items: Items, key: str) -> None:
    del items[key]


def flip(items: Items, key: str) -> None:
    data = bytearray(items[key].data)
    data[len(data) // 2] ^= 1
    items[key] = replace(items[key], data=bytes(data))


def cut(items: Items, key: str) -> None:
    items[key] = replace(items[key], data=items[key].data[:-9])


def values_of(node: TableNode) -> list[bytes]:
    values: list[bytes] = rows_in(bucket_of(node)).column("value").to_pylist()
    return values


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def filled(node: TableNode, count: int) -> list[TableFile]:
    """One file a segment."""
    await node.open()
    for number in range(count):
        await node.produce_sealed(b"%d" % number)
        await node.published(number + 1)
        await node.converted()
    return files_in(bucket_of(node))


@pytest.mark.parametrize("spoil", [lose, flip, cut])
def test_a_file_that_a_merge_finds_spoilt_is_made_anew(
    spoil: Callable[[Items, str], None],
) -> None:
    async def scenario(node: TableNode) -> None:
        with_settings(node, merge_bytes_max=1 << 20, merge_files_min=6)
        files = await filled(node, 4)
        items = bucket_of(node).shelf.items
        spoil(items, KEYS.full(files[1].key))
        for number in range(4, 12):
            await node.produce_sealed(b"%d" % number)
            await node.converted()
        await until(lambda: node.keeper.stats.merged_files >= 6)
        assert node.keeper.stats.remade_files == 1
        assert values_of(node) == numbers(12)
        assert files[1].key in {one.key for one in table_in(bucket_of(node)).garbage}

    play_tables(scenario)


def test_a_lost_file_of_a_page_is_found_and_made_anew() -> None:
    async def scenario(node: TableNode) -> None:
        with_settings(node, orphan_interval_ms=60_000)
        files = await filled(node, 70)
        assert table_in(bucket_of(node)).pages
        items = bucket_of(node).shelf.items
        for number in (3, 66):
            lose(items, KEYS.full(files[number].key))
        await until(lambda: node.keeper.stats.remade_files == 2)
        assert values_of(node) == numbers(70)
        before = table_in(bucket_of(node))
        await asyncio.sleep(200)
        assert table_in(bucket_of(node)) == before  # And then there is peace.

    play_tables(scenario)


def test_a_file_is_made_anew_from_segments_that_were_merged_since() -> None:
    async def scenario(node: TableNode) -> None:
        node.settings = replace(node.settings, merge_interval_ms=200)
        node.tiering = eager()
        with_settings(node, orphan_interval_ms=60_000)
        files = await filled(node, 12)
        await until(lambda: node.tier.stats.merged_objects > 0)
        lose(bucket_of(node).shelf.items, KEYS.full(files[1].key))
        await until(lambda: node.keeper.stats.remade_files == 1)
        assert values_of(node) == numbers(12)
        assert [(one.start, one.end) for one in files_in(bucket_of(node))] == [
            (number, number + 1) for number in range(12)
        ]

    play_tables(scenario)


def test_a_file_whose_segment_is_lost_as_well_stays_and_is_tried_again() -> None:
    async def scenario(node: TableNode) -> None:
        node.tiering = eager()  # Else the tier puts the segment back from the local disk.
        with_settings(node, orphan_interval_ms=60_000, retry_ms=120_000)
        files = await filled(node, 3)
        await until(lambda: node.log.log_start == 3)
        items = bucket_of(node).shelf.items
        lost = KEYS.full(files[1].sources[0].key)
        kept = items.pop(lost)
        lose(items, KEYS.full(files[1].key))
        await asyncio.sleep(600)
        assert node.keeper.stats.remade_files == 0
        assert table_in(bucket_of(node)).files == tuple(files)
        items[lost] = kept
        await until(lambda: node.keeper.stats.remade_files == 1)
        assert values_of(node) == numbers(3)

    play_tables(scenario)


def test_a_lost_file_below_the_logs_start_is_not_made_anew() -> None:
    async def scenario(node: TableNode) -> None:
        with_settings(node, orphan_interval_ms=60_000)
        files = await filled(node, 3)
        lose(bucket_of(node).shelf.items, KEYS.full(files[0].key))
        node.prefix.adopt(await node.partition.uploader.publisher.commit(MoveLogStart(Offset(1))))
        await asyncio.sleep(300)
        assert node.keeper.stats.remade_files == 0
        assert values_of(node) == [b"1", b"2"]

    play_tables(scenario)
