"""Local copies go by rule U6 and not sooner."""

import asyncio
from dataclasses import replace

import pytest

from tests.cold.tiering import (
    KEYS,
    NODE,
    TOPIC,
    TierNode,
    bucket_of,
    eager,
    head_in,
    play,
    play_node,
)
from tests.hot.support import read_values
from tierlog.cold.tiersettings import TopicTiering
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket

HOUR_MS = 3_600_000


async def seconds(count: float) -> None:
    await asyncio.sleep(count)


def test_an_uploaded_segment_stays_for_its_local_retention() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        node.produce(b"b")
        await seconds(55)
        assert (node.log.log_start, node.prefix.uploaded_end) == (0, 1)
        await seconds(10)
        assert node.log.log_start == 1
        await node.log.settle()
        assert f"{0:020d}.log" not in node.env.disk.listdir(node.log.path)
        assert read_values(node.log) == {1: b"b"}
        assert node.tier.stats.dropped_segments == 1
        assert node.tier.stats.dropped_bytes > 0

    play_node(scenario)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_published_while_the_clock_was_ahead_goes_all_the_same(restarts: bool) -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> TierNode:
            world.host(NODE).clock.step(HOUR_MS)
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"a")
            await seconds(10)
            world.host(NODE).clock.step(-HOUR_MS)
            return node

        async def dropped(node: TierNode) -> None:
            if restarts:
                node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            await seconds(55)
            assert (node.log.log_start, node.prefix.uploaded_end) == (0, 1)
            await seconds(10)
            assert node.log.log_start == 1

        node = await world.start(NODE, first(), what="first")
        if restarts:
            world.kill(NODE)
        await world.start(NODE, dropped(node), what="second")

    play(scenario)


def test_what_is_not_published_is_never_dropped() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(eager(), local_retention_bytes=0)
        node.store.is_closed = True
        await node.open()
        for _ in range(5):
            await node.produce_sealed(b"x")
        await seconds(130)
        assert (node.log.log_start, node.tier.stats.dropped_segments) == (0, 0)

    play_node(scenario)


def test_bytes_beyond_the_limit_go_at_once_once_they_are_cold() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        for _ in range(5):
            await node.produce_sealed(b"x" * 1000)
        size = node.log.sealed()[0].size
        node.tier.reconfigure(
            KEYS.topic_id,
            TOPIC,
            TopicTiering(local_retention_ms=-1, local_retention_bytes=2 * size),
        )
        await seconds(5)
        assert node.log.log_start == 3

    play_node(scenario)


def test_without_a_limit_everything_stays() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = TopicTiering(local_retention_ms=-1)
        await node.open()
        await node.produce_sealed(b"x")
        await seconds(200)
        assert (node.log.log_start, node.prefix.uploaded_end) == (0, 1)

    play_node(scenario)


def test_a_lost_object_is_put_back_from_the_local_copy_before_that_goes() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        for value in (b"a", b"b", b"c"):
            await node.produce_sealed(value)
        await seconds(5)
        bucket = bucket_of(node)
        entry = head_in(bucket).entries[1]
        kept = bucket.shelf.items.pop(KEYS.full(entry.key))
        await seconds(200)
        assert bucket.shelf.items[KEYS.full(entry.key)].data == kept.data
        assert (node.log.log_start, node.partition.status.last_error) == (3, None)
        assert (node.tier.stats.lost_objects, node.tier.stats.put_back_objects) == (1, 1)

    play_node(scenario)


def test_a_lost_object_is_put_back_by_a_later_start() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"a")
            await seconds(5)

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            await node.produce_sealed(b"b")
            await seconds(200)
            assert (node.log.log_start, node.tier.stats.put_back_objects) == (2, 1)

        await world.start(NODE, first(), what="first life")
        world.kill(NODE)
        (entry,) = head_in(bucket).entries
        kept = bucket.shelf.items.pop(KEYS.full(entry.key))
        await world.start(NODE, second(), what="second life")
        assert bucket.shelf.items[KEYS.full(entry.key)].data == kept.data

    play(scenario)


def test_a_lost_object_that_cannot_be_made_again_keeps_the_local_copy_and_says_so() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(5)
        bucket = bucket_of(node)
        (entry,) = head_in(bucket).entries
        kept = bucket.shelf.items.pop(KEYS.full(entry.key))
        publisher = node.partition.uploader.publisher
        publisher.place = replace(publisher.place, topic="another name")
        await seconds(200)
        assert (node.log.log_start, node.tier.stats.put_back_objects) == (0, 0)
        assert node.tier.stats.lost_objects > 0
        error = node.partition.status.last_error
        assert error is not None
        assert entry.key in error
        assert "cannot be put back" in error
        bucket.shelf.items[KEYS.full(entry.key)] = kept
        await seconds(200)
        assert (node.log.log_start, node.partition.status.last_error) == (1, None)

    play_node(scenario)


def test_an_object_that_is_another_keeps_the_local_copy() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(5)
        bucket = bucket_of(node)
        (entry,) = head_in(bucket).entries
        other = KEYS.full(entry.key)
        bucket.shelf.items.pop(other)
        bucket.shelf.put(other, b"another", now_ms=1)
        await seconds(200)
        assert node.log.log_start == 0
        error = node.partition.status.last_error
        assert error is not None
        assert "7 bytes" in error

    play_node(scenario)


def test_a_head_that_was_rolled_back_is_repaired_before_anything_is_dropped() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(5)
        bucket = bucket_of(node)
        old = bucket.shelf.items[KEYS.head]
        await node.produce_sealed(b"b")
        await seconds(5)
        bucket.shelf.items[KEYS.head] = old
        await seconds(200)
        assert (head_in(bucket).next_offset, node.log.log_start) == (2, 2)

    play_node(scenario)


def test_after_a_restart_the_window_counts_from_the_last_publish_that_is_known() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"a")
            await seconds(30)

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            assert (node.prefix.uploaded_end, node.log.log_start) == (1, 0)
            await seconds(25)
            assert node.log.log_start == 0
            await seconds(10)
            assert node.log.log_start == 1

        await world.start(NODE, first(), what="first life")
        world.kill(NODE)
        await world.start(NODE, second(), what="second life")

    play(scenario)


def test_a_store_that_is_away_drops_nothing() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(5)
        node.store.is_closed = True
        await seconds(130)
        assert node.log.log_start == 0
        node.store.is_closed = False
        await seconds(120)
        assert node.log.log_start == 1

    play_node(scenario)


def test_a_node_that_was_succeeded_keeps_what_it_alone_has() -> None:
    """Another leader's records under the same offsets are no copy of these."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"a")
            await seconds(5)
            twin = world.host("twin").disk = world.disk(NODE).snapshot()
            twin.kill()
            await world.start("twin", succeed(), what="its successor")
            await node.produce_sealed(b"mine")
            await seconds(300)
            assert (node.prefix.uploaded_end, node.log.log_start) == (2, 1)
            assert read_values(node.log) == {1: b"mine"}

        async def succeed() -> None:
            node = await TierNode(world.env("twin"), bucket, leader_epoch=2).open()
            await node.produce_sealed(b"b")
            await seconds(5)
            assert node.prefix.uploaded_end == 2

        await world.start(NODE, first(), what="first")

    play(scenario)


def test_a_node_beside_its_twin_keeps_what_it_alone_has() -> None:
    """Two copies of one data directory, both at the same leader epoch."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"shared")
            await seconds(5)

        async def one() -> None:
            node = await TierNode(world.env("twin"), bucket, leader_epoch=2).open()
            await node.produce_sealed(b"theirs")
            await seconds(300)

        async def other() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            await seconds(20)
            await node.produce_sealed(b"mine")
            await seconds(250)
            assert node.partition.is_fenced
            assert (node.log.log_start, read_values(node.log)) == (1, {1: b"mine"})

        await world.start(NODE, first(), what="first")
        world.kill(NODE)
        twin = world.host("twin").disk = world.disk(NODE).snapshot()
        twin.kill()
        await asyncio.gather(
            world.start("twin", one(), what="one"), world.start(NODE, other(), what="other")
        )

    play(scenario)


def test_what_another_process_published_is_compared_before_the_local_copy_goes() -> None:
    """A copied data directory that comes back later, at a higher leader epoch: nothing fences it,
    and leader epochs, offsets and sizes agree."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def live(host: str, epoch: int, value: bytes) -> TierNode:
            node = TierNode(world.env(host), bucket, leader_epoch=epoch)
            await node.open()
            await node.produce_sealed(value)
            await seconds(5)
            return node

        async def cut_off() -> None:
            node = TierNode(world.env(NODE), bucket, leader_epoch=2)
            node.store.is_closed = True
            await node.open()
            await node.produce_sealed(b"mine")

        async def back() -> None:
            node = await live(NODE, 3, b"later")
            await seconds(300)
            error = node.partition.status.last_error
            assert error is not None
            assert "the records are others" in error
            assert read_values(node.log, 1) == {1: b"mine", 2: b"later"}

        await world.start(NODE, live(NODE, 1, b"shared"), what="first")
        world.kill(NODE)
        twin = world.host("twin").disk = world.disk(NODE).snapshot()
        twin.kill()
        await world.start(NODE, cut_off(), what="cut off")
        world.kill(NODE)
        await world.start("twin", live("twin", 2, b"them"), what="the twin")
        world.kill("twin")
        await world.start(NODE, back(), what="back")

    play(scenario)


def test_what_an_earlier_process_published_goes_once_it_is_found_the_same() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"a", b"b")
            await node.produce_sealed(b"c")
            await seconds(5)

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            await seconds(100)
            assert (node.log.log_start, node.log.trimmed_to) == (3, 0)
            assert node.partition.status.last_error is None

        await world.start(NODE, first(), what="first")
        world.kill(NODE)
        await world.start(NODE, second(), what="second")

    play(scenario)
