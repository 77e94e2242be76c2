"""ListOffsets and OffsetForLeaderEpoch over both tiers, before and after a restart."""

import asyncio
from typing import Any
from unittest.mock import patch

from tests.broker import asks
from tests.broker.coldworld import ColdServed, Lives, in_world, until
from tierlog.hot import Log
from tierlog.hot.bytime import Found, Steps
from tierlog.types import Offset
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LAST_TIERED, PENDING = -1, -2, -3, -4, -5, -6
T = 1_600_000_000_000
"""The time of the oldest record."""


async def with_both_tiers(served: ColdServed) -> None:
    """Offsets 0-3 are cold at T, T+1, T+10, T+11; 4 and 5 are hot at T+20, T+21."""
    await served.tiered("t")
    await served.make_cold("t", b"a", b"b", at_ms=T)
    await served.make_cold("t", b"c", b"d", at_ms=T + 10)
    await served.append("t", b"e", b"f", at_ms=T + 20)


async def places(served: ColdServed) -> list[int]:
    found = []
    for kind in (EARLIEST, LAST_TIERED, EARLIEST_LOCAL, PENDING, LATEST):
        answer = await asks.offset_at(served, "t", kind)
        assert answer.error_code == ErrorCode.NONE
        found.append(answer.offset)
    return found


@in_world
async def test_every_end_of_both_tiers_is_told(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        assert await places(served) == [0, -1, 0, 0, 0]
        await served.append("t", b"a")
        assert await places(served) == [0, -1, 0, 0, 1]
    async with lives.node() as served:
        await served.make_cold("t", b"b")
        await served.append("t", b"c", b"d")
        assert await places(served) == [0, 1, 2, 2, 4]
    async with lives.node() as served:
        assert await places(served) == [0, 1, 2, 2, 4]


@in_world
async def test_a_topic_that_is_not_tiered_has_nothing_in_the_store(lives: Lives) -> None:
    async with lives.node() as served:
        await served.create("t", remote_storage_enable="false")
        await served.append("t", b"a")
        assert await places(served) == [0, -1, 0, -1, 1]


@in_world
async def test_many_partitions_are_searched_by_time_at_once_but_not_all(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", partitions=20)
        for index in range(20):
            await served.make_cold("t", b"a", b"b", index=index, at_ms=T + index)
        lives.store.is_open.clear()
        asked = asyncio.ensure_future(asks.offsets_at(served, "t", dict.fromkeys(range(20), T + 1)))
        await until(lambda: lives.store.held >= 16)
        await asyncio.sleep(5)
        assert lives.store.held == 16
        lives.store.is_open.set()
        found = [(one.partition_index, one.offset, one.error_code) for one in await asked]
        assert found == [(0, 1, 0), *((index, 0, 0) for index in range(1, 20))]


async def out_of_order(served: ColdServed) -> Log:
    """Offset 0 at T+1000 is deleted, 1 at T; 2 at T+10; 3 at T+20. All but 3 are in the bucket, and
    all are on the disk."""
    await served.tiered("t", local_retention_ms="-1")
    one = served.at("t")
    await served.append("t", b"deleted", at_ms=T + 1000)
    await served.seal("t", b"early", at_ms=T)
    await served.seal("t", b"wanted", at_ms=T + 10)
    await served.append("t", b"later", at_ms=T + 20)
    await until(lambda: one.cold is not None and one.cold.uploaded_end == 3)
    await asks.delete_records(served, "t", 1)
    return one.log


@in_world
async def test_a_drop_between_two_steps_of_a_search_by_time_hides_no_record(lives: Lives) -> None:
    async with lives.node() as served:
        log = await out_of_order(served)
        run, dropped = served.node.searches.run, []

        def dropping(steps: Steps[Found | None]) -> Steps[Found | None]:
            found: Found | None = None
            while True:
                try:
                    question = steps.send(found)
                except StopIteration as stop:
                    result: Found | None = stop.value
                    return result
                if log.log_start < 3:
                    log.drop(Offset(3))
                    dropped.append(log.log_start)
                found = yield question

        with patch.object(type(served.node.searches), "run", lambda _, steps: run(dropping(steps))):
            assert (await asks.offset_at(served, "t", T + 5)).offset == 2
        assert dropped == [3]


@in_world
async def test_a_drop_while_the_bucket_is_searched_by_time_hides_no_record(lives: Lives) -> None:
    async with lives.node() as served:
        log = await out_of_order(served)
        log.drop(Offset(2))
        proxy = served.node.proxy
        assert proxy is not None
        search = proxy.search_time

        async def dropping(*wanted: Any, **more: Any) -> Found | None:
            found = await search(*wanted, **more)
            if log.log_start < 3:
                log.drop(Offset(3))
                return None  # By the HEAD of before, which ended with offset 1.
            return found

        with patch.object(proxy, "search_time", dropping):
            assert (await asks.offset_at(served, "t", T + 5)).offset == 2


@in_world
async def test_a_time_is_found_in_whichever_tier_has_it(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        wanted = {0: 0, T: 0, T + 1: 1, T + 2: 2, T + 11: 3, T + 12: 4, T + 20: 4, T + 21: 5}
        for _ in range(2):  # From the bucket, then from the cache.
            for time, offset in wanted.items():
                answer = await asks.offset_at(served, "t", time)
                assert (time - T, answer.offset) == (time - T, offset)
        late = await asks.offset_at(served, "t", T + 22)
        assert (late.offset, late.timestamp, late.error_code) == (-1, -1, 0)


@in_world
async def test_times_before_the_log_start_are_not_found(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        await asks.delete_records(served, "t", 1)
        answer = await asks.offset_at(served, "t", T)
        assert (answer.offset, answer.timestamp) == (1, T + 1)


@in_world
async def test_the_largest_timestamp_is_found_in_either_tier(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        newest = await asks.offset_at(served, "t", MAX_TIMESTAMP)
        assert (newest.offset, newest.timestamp) == (5, T + 21)
        await served.make_cold("t", b"late", at_ms=T + 500)
        await served.append("t", b"old", at_ms=T + 30)
        newest = await asks.offset_at(served, "t", MAX_TIMESTAMP)
        assert (newest.offset, newest.timestamp) == (6, T + 500)
        await served.append("t", b"same", at_ms=T + 500)
        assert (await asks.offset_at(served, "t", MAX_TIMESTAMP)).offset == 6


@in_world
async def test_a_time_that_only_the_store_knows_is_a_retriable_error_without_it(
    lives: Lives,
) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        lives.store.is_closed = True
        for time in (T, MAX_TIMESTAMP):
            answer = await asks.offset_at(served, "t", time)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await places(served) == [0, 3, 4, 4, 6]


# Leader epochs


async def end_of(served: ColdServed, epoch: int) -> tuple[int, int]:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    topic = OffsetForLeaderTopic(topic="t", partitions=[asked])
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
    answer = (await served.call(request, 4)).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    return answer.leader_epoch, answer.end_offset


@in_world
async def test_epochs_are_known_over_both_tiers(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
    async with lives.node() as served:
        await served.make_cold("t", b"c")
    async with lives.node():
        pass  # Epoch 2 writes nothing.
    for _ in range(2):
        async with lives.node() as served:
            await served.append("t", b"d")
            assert await end_of(served, 0) == (0, 2)
            assert await end_of(served, 1) == (1, 3)
            assert await end_of(served, 2) == (1, 3)
            this = served.at("t").leader_epoch
            assert await end_of(served, this) == (this, served.at("t").high_watermark)
            assert await end_of(served, this + 1) == (-1, -1)


@in_world
async def test_an_offset_is_told_with_the_epoch_that_wrote_it(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b", at_ms=T)
    async with lives.node() as served:
        await served.make_cold("t", b"c", at_ms=T + 10)
    async with lives.node() as served:
        await served.append("t", b"d", at_ms=T + 20)
        for time, epoch in ((T, 0), (T + 10, 1), (T + 20, 2)):
            assert (await asks.offset_at(served, "t", time)).leader_epoch == epoch


@in_world
async def test_epochs_outlive_the_records_that_were_deleted(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b")
    async with lives.node() as served:
        await served.make_cold("t", b"c", b"d")
        await asks.delete_records(served, "t", 3)
        assert await end_of(served, 1) == (1, 4)
        await until(lambda: served.uploads("t").task is None)
    async with lives.node() as served:
        assert await end_of(served, 1) == (1, 4)
