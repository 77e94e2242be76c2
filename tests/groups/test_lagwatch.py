"""Lag over both tiers, held against the records themselves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

from tests.broker.coldworld import ColdServed, Lives, in_world, until
from tierlog.coordinator.step import Now
from tierlog.groups import lagwatch
from tierlog.groups.lag import Facts, PartitionLag, partition_lag
from tierlog.groups.lagwatch import COLD_MAX, LagWatch
from tierlog.groups.service import GroupCoordinator
from tierlog.groups.values import Commit
from tierlog.sim.storefaults import StoreCall

T = 1_600_000_000_000
"""The time of the oldest record."""


@asynccontextmanager
async def watched(lives: Lives) -> AsyncIterator[tuple[ColdServed, LagWatch, GroupCoordinator]]:
    async with lives.node(offsets_topic_num_partitions=2) as served:
        groups = GroupCoordinator(served.node)
        groups.start()
        await groups.ensure()
        await until(lambda: all(one.is_loaded for one in groups.shards))
        watch = LagWatch(served.node, groups)
        try:
            yield served, watch, groups
        finally:
            await watch.stop()
            await groups.stop()


async def commit(groups: GroupCoordinator, group: str, topic: str, *offsets: int) -> None:
    """One for each partition."""
    shard = groups.shard_of(group)
    commits = [Commit(topic, index, offset, -1, "") for index, offset in enumerate(offsets)]

    def decide(ticket: int, now: Now) -> object:
        return shard.machine.commit(group, "", None, -1, commits, ticket, now)

    await shard.act(decide)  # type: ignore[arg-type]


@in_world
async def test_lag_is_exact_in_both_tiers(lives: Lives) -> None:
    """Four batches are cold, two hot, each of one record: wherever a group stands, its numbers are
    those of the records behind it."""
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b", at_ms=T)
        await served.make_cold("t", b"c", b"d", at_ms=T + 10_000)
        await served.append("t", b"e", b"f", at_ms=T + 20_000)
        times = [T, T + 1, T + 10_000, T + 10_001, T + 20_000, T + 20_001]
        for offset in range(7):
            await commit(groups, f"g{offset}", "t", offset)
        found = await watch.fresh()
        for offset in range(6):
            lag = found.groups[f"g{offset}"]
            assert lag.records == 6 - offset
            assert lag.seconds == (found.at_ms - times[offset]) / 1000
            assert lag.cold_partitions == (offset < 4)
        done = found.groups["g6"]
        assert (done.records, done.bytes, done.seconds) == (0, 0, 0.0)
        size = served.at("t").log.size_bytes // 2
        sizes = [found.groups[f"g{offset}"].bytes for offset in range(6)]
        assert sizes[4:] == [2 * size, size]
        # The manifest has a sample for the first batch of each segment.
        assert sizes[0] == 6 * size
        assert sizes[2] == 4 * size


@in_world
async def test_the_store_is_asked_once_for_each_record(lives: Lives) -> None:
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b", at_ms=T)
        await commit(groups, "g", "t", 1)
        await watch.fresh()
        asked: list[str] = []

        def note(call: StoreCall) -> None:
            asked.append(call.kind)

        lives.bucket.on_call = note
        for _ in range(3):
            await until_later(lives, 10)
            assert (await watch.fresh()).groups["g"].seconds is not None
        assert not [kind for kind in asked if kind in ("get", "get_tail", "list")]


@in_world
async def test_whoever_asks_soon_again_is_told_the_same(lives: Lives) -> None:
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t")
        await served.append("t", b"a")
        await commit(groups, "g", "t", 0)
        first = await watch.fresh()
        assert await watch.fresh() is first
        await until_later(lives, 3)
        assert await watch.fresh() is not first


@in_world
async def test_rates_come_with_time(lives: Lives) -> None:
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t")
        await served.append("t", *[b"x"] * 100)
        await commit(groups, "g", "t", 0)
        assert (await watch.fresh()).groups["g"].trend.value == "unknown"
        await until_later(lives, 10)
        await commit(groups, "g", "t", 50)
        lag = (await watch.fresh()).groups["g"]
        assert lag.trend.value == "falling"
        assert lag.consumed_per_s is not None
        assert 4 < lag.consumed_per_s < 6
        assert lag.catch_up_s is not None
        assert 8 < lag.catch_up_s < 13


@in_world
async def test_the_first_unread_record_falls_off_when_retention_says(lives: Lives) -> None:
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t", retention_ms="1000000", local_retention_ms="500000")
        now_ms = served.node.now_ms()
        await served.seal("t", b"a", b"b", at_ms=now_ms - 100_000)
        await until(lambda: served.at("t").cold.uploaded_end == 2)  # type: ignore[union-attr]
        await commit(groups, "g", "t", 1)
        await until_later(lives, 5)
        lag = (await watch.fresh()).groups["g"]
        assert lag.retention_left_s is not None
        assert 850 < lag.retention_left_s < 901
        assert lag.local_left_s is not None
        assert 400 < lag.local_left_s < 500


@in_world
async def test_a_store_that_is_away_leaves_seconds_unknown_and_the_rest_known(
    lives: Lives,
) -> None:
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b", at_ms=T)
        await commit(groups, "g", "t", 1)
        lives.store.is_open.clear()
        lag = (await watch.fresh()).groups["g"]
        assert (lag.records, lag.seconds) == (1, None)
        lives.store.is_open.set()
        await until_later(lives, 20)
        assert (await watch.fresh()).groups["g"].seconds is not None


@in_world
async def test_many_groups_in_the_cold_are_asked_for_some_at_a_time(lives: Lives) -> None:
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t")
        await served.make_cold("t", b"a", b"b", at_ms=T)
        for number in range(COLD_MAX + 10):
            await commit(groups, f"g{number}", "t", 0)
        known = [one for one in (await watch.fresh()).groups.values() if one.seconds is not None]
        assert len(known) == COLD_MAX
        await until_later(lives, 10)
        assert all(one.seconds is not None for one in (await watch.fresh()).groups.values())


@in_world
async def test_lags_are_not_computed_in_one_piece(lives: Lives) -> None:
    """With pieces of no length at all, others have a turn between any two of them."""
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t")
        await served.append("t", b"a")
        for number in range(20):
            await commit(groups, f"g{number}", "t", 0)
        sleep, turns, seen = asyncio.sleep, 0, []

        async def turn(seconds: float) -> None:
            nonlocal turns
            turns += 1
            await sleep(seconds)

        def computed(facts: Facts, *, now_ms: int) -> PartitionLag:
            seen.append(turns)
            return partition_lag(facts, now_ms=now_ms)

        with (
            patch.object(lagwatch, "A_TURN_S", -1.0),
            patch.object(lagwatch, "partition_lag", computed),
            patch.object(asyncio, "sleep", turn),
        ):
            await watch.fresh()
        assert len(set(seen)) == len(seen) == 20


@in_world
async def test_a_group_that_is_gone_is_forgotten(lives: Lives) -> None:
    async with watched(lives) as (served, watch, groups):
        topic = await served.tiered("t")
        await served.append("t", b"a")
        await commit(groups, "g", "t", 0)
        assert "g" in (await watch.fresh()).groups
        await served.node.controller.delete(topic)
        await until(lambda: "t" not in served.node.topics.by_name)
        await until_later(lives, 5)
        assert not (await watch.fresh()).groups
        assert not watch._samples


async def until_later(lives: Lives, seconds: float) -> None:
    clock = lives.env.clock
    at = clock.monotonic() + seconds
    await until(lambda: clock.monotonic() >= at)
