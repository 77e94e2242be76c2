"""Tables of several partitions on one node, and of topics that have none any more."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.cold.tiering import KEYS, bucket_of, second_partition
from tests.hot.support import append, batch
from tests.table.tabling import TableNode, play_tables, table_in, until, with_settings
from tierlog.cold.changes import MoveLogStart
from tierlog.cold.tieredpartition import TieredPartition
from tierlog.cold.tiersettings import TopicTiering
from tierlog.objectstore.errors import StoreDenied, StoreUnavailable
from tierlog.objectstore.port import Body, Written
from tierlog.table.keeper import TableKeeper
from tierlog.types import Offset

Scenario = Callable[[TableNode], Coroutine[Any, Any, None]]


async def produce_sealed(partition: TieredPartition, node: TableNode, value: bytes) -> None:
    log, now_ms = partition.log, node.env.clock.now_ms()
    append(log, batch(value, timestamp=now_ms), leader_epoch=1, now_ms=now_ms)
    log.roll()
    await log.settle()


def ends_of(node: TableNode) -> dict[str, int]:
    return {topic_id: one.converted_end for (topic_id, _), one in node.keeper.converters.items()}


async def two_partitions(node: TableNode) -> TieredPartition:
    """Of which the first sorts before the second, and both have something to convert."""
    await node.open()
    second = await second_partition(node)
    assert list(node.tier.partitions) == sorted(node.tier.partitions)
    await node.produce_sealed(b"one")
    await produce_sealed(second, node, b"two")
    return second


def test_a_conversion_that_fails_as_nobody_foresaw_holds_up_no_other() -> None:
    async def scenario(node: TableNode) -> None:
        second = await two_partitions(node)
        await until(lambda: len(node.keeper.converters) == 2)
        first, other = sorted(node.keeper.converters)
        is_broken = True
        whole = node.keeper.converters[first].convert

        async def stumble() -> int:
            if is_broken:
                raise KeyError("a bug of ours")
            return await whole()

        node.keeper.converters[first].convert = stumble  # type: ignore[method-assign]  # for this test
        await produce_sealed(second, node, b"three")
        await until(lambda: ends_of(node)[other[0]] == 2)
        is_broken = False
        await until(lambda: ends_of(node)[first[0]] == 1)
        assert node.keeper.converters[first].last_error is None

    play_tables(scenario)


@pytest.mark.parametrize("fault", [StoreDenied, StoreUnavailable])
def test_a_prefix_that_takes_no_writes_holds_up_no_other(
    fault: type[StoreDenied | StoreUnavailable],
) -> None:
    async def scenario(node: TableNode) -> None:
        is_closed, put = True, node.store.put_if_absent

        async def refused(key: str, body: Body) -> Written:
            if is_closed and key.startswith(KEYS.prefix + "pq/"):
                raise fault("not into this one")
            return await put(key, body)

        node.store.put_if_absent = refused  # type: ignore[method-assign]  # for this test
        second = await two_partitions(node)
        for number in range(2, 12):
            await produce_sealed(second, node, b"%d" % number)
            await until(lambda end=number: ends_of(node).get("f" * 32) == end, pause_s=0.5)  # type: ignore[misc]
        is_closed = False
        await until(lambda: sorted(ends_of(node).values()) == [1, 11])

    play_tables(scenario)


def without_a_table() -> TopicTiering:
    return TopicTiering(table=False)


async def moved_start(node: TableNode, offset: int) -> None:
    head = await node.partition.uploader.publisher.commit(MoveLogStart(Offset(offset)))
    node.prefix.adopt(head)


def test_what_leaves_the_log_leaves_a_table_that_was_switched_off() -> None:
    async def scenario(node: TableNode) -> None:
        with_settings(node, garbage_grace_ms=5_000)
        await node.open()
        for number in range(3):
            await node.produce_sealed(b"%d" % number)
            table = await node.converted()
        node.partition.dropper.tiering = without_a_table()
        await until(lambda: not node.keeper.converters)
        await node.produce_sealed(b"3")
        await node.published(4)
        await moved_start(node, 2)
        await until(lambda: table_in(bucket_of(node)).table_start == 2)
        items = bucket_of(node).shelf.items
        await until(lambda: not table_in(bucket_of(node)).garbage)
        left = [KEYS.full(one.key) in items for one in table.files]
        assert left == [False, False, True]
        assert table_in(bucket_of(node)).converted_end == 3

    play_tables(scenario)


def test_a_node_finds_a_table_that_was_switched_off_before_it_started() -> None:
    async def scenario(node: TableNode) -> None:
        with_settings(node, garbage_grace_ms=5_000, off_look_ms=20_000)
        await node.open()
        await node.produce_sealed(b"one")
        await node.converted()
        node.partition.dropper.tiering = without_a_table()
        await node.produce_sealed(b"two")
        await node.published(2)
        node.tier.chores.remove(node.keeper)
        await moved_start(node, 1)
        again = TableKeeper(
            node.env,
            node.store,
            node.tier.partitions,
            directory=node.tier.maker.copies.path,
            node_id=7,
            settings=node.table_settings,
        )
        node.tier.chores.append(again)
        await asyncio.sleep(10)
        assert table_in(bucket_of(node)).files
        await until(lambda: not table_in(bucket_of(node)).files)
        await until(lambda: not table_in(bucket_of(node)).garbage)
        assert not [key for key in bucket_of(node).shelf.items if "/pq/" in key]

    play_tables(scenario)


def test_a_topic_that_never_had_a_table_costs_a_look_now_and_then() -> None:
    async def scenario(node: TableNode) -> None:
        node.tiering = without_a_table()
        with_settings(node, off_look_ms=20_000, retry_ms=60_000)
        await node.open()
        asked: list[str] = []
        get = node.store.get

        async def counted(key: str, **more: Any) -> Any:
            asked.append(key)
            return await get(key, **more)

        node.store.get = counted  # type: ignore[method-assign]
        for number in range(5):
            await node.produce_sealed(b"%d" % number)
            await node.published(number + 1)
        await asyncio.sleep(120)
        assert asked.count(KEYS.table) == 2

    play_tables(scenario)
