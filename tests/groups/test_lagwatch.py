"""Lag over both tiers, held against the records themselves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from unittest.mock import patch

from tests.broker.coldworld import ColdServed, Lives, in_world, until
from tests.cold.makers import Bucket, a_head, entries
from tierlog.cold import tree
from tierlog.cold.head import PageRef
from tierlog.cold.page import Page
from tierlog.cold.prefix import ColdPrefix
from tierlog.coordinator.step import Now
from tierlog.groups import fates, lagwatch
from tierlog.groups.lag import Facts, PartitionLag, partition_lag
from tierlog.groups.lagwatch import COLD_MAX, COLD_S, ROUND_S, SHARE, LagWatch
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
async def test_when_a_record_leaves_the_disk_is_not_known_before_it_is_uploaded(
    lives: Lives,
) -> None:
    async with watched(lives) as (served, watch, groups):
        await served.tiered("t", local_retention_ms="500000")
        await served.append("t", b"a")
        await served.create("untiered", remote_storage_enable="false")
        await served.append("untiered", b"a")
        await commit(groups, "g", "t", 0)
        await commit(groups, "untiered", "untiered", 0)
        found = (await watch.fresh()).groups
        assert (found["g"].local_left_s, found["g"].is_local_left_known) == (None, False)
        stays = found["untiered"]
        assert (stays.local_left_s, stays.is_local_left_known) == (None, True)


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


class Pages:
    """Manifests of many pages, in a store that takes its time for each."""

    LIMITS = tree.Limits(entries_inline=3, leaf_entries=6, leaves_inline=1, index_leaves=3)

    def __init__(self, page_s: float) -> None:
        self.page_s = page_s
        self.asked = 0
        self._bucket = Bucket(limits=self.LIMITS)
        self._kept: set[tuple[ColdPrefix, str]] = set()
        self.head = a_head()
        for number in range(30):
            self.head = self._bucket.append(self.head, entries([number]))

    def serve(self) -> AbstractContextManager[object]:
        """Instead of the store, for whatever partition."""

        async def page(prefix: ColdPrefix, ref: PageRef) -> Page:
            if (prefix, ref.key) not in self._kept:
                self.asked += 1
                await asyncio.sleep(self.page_s)
                self._kept.add((prefix, ref.key))
            return self._bucket.read(ref)

        return patch.object(ColdPrefix, "page", page)

    async def behind(self, served: ColdServed, groups: GroupCoordinator, count: int) -> None:
        """A group that stands before a record of so many partitions, each with such a manifest."""
        await served.tiered("t", partitions=count)
        for index in range(count):
            await served.append("t", b"a", index=index)
            served.uploads("t", index).prefix.head = self.head
        await commit(groups, "g", "t", *[0] * count)


@in_world
async def test_a_silent_store_is_waited_for_once_and_the_next_round_is_not_put_off(
    lives: Lives,
) -> None:
    pages = Pages(page_s=10_000)
    async with watched(lives) as (served, watch, groups):
        await pages.behind(served, groups, 20)
        with pages.serve():
            began = lives.env.clock.monotonic()
            found = await watch.fresh()
        assert found.groups["g"].records == 20
        assert found.groups["g"].seconds is not None
        assert lives.env.clock.monotonic() - began < COLD_S + 1
        assert found.work_s * SHARE < ROUND_S
        assert pages.asked <= fates.AT_ONCE, "who does not answer is not asked for others' pages"


@in_world
async def test_pages_of_many_partitions_are_asked_for_side_by_side(lives: Lives) -> None:
    pages = Pages(page_s=0.040)
    async with watched(lives) as (served, watch, groups):
        await pages.behind(served, groups, 20)
        with pages.serve():
            began = lives.env.clock.monotonic()
            found = await watch.fresh()
        waits_s = lives.env.clock.monotonic() - began
        assert pages.asked >= 20
        assert 0.040 < waits_s < pages.asked * pages.page_s / 4
        assert found.work_s * SHARE < ROUND_S


@in_world
async def test_pages_that_came_too_late_are_asked_for_in_the_next_round(lives: Lives) -> None:
    """Three seconds are not enough for all: each round gets to some more of them."""
    pages = Pages(page_s=0.5)
    async with watched(lives) as (served, watch, groups):
        await pages.behind(served, groups, 20)
        known = []
        with pages.serve():
            for _ in range(5):
                await watch.fresh()
                known.append(sum(one.is_whole for one in watch._fates._known.values()))
                await until_later(lives, ROUND_S)
        assert 0 <= known[0] < 20
        assert known[-1] == 20


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
