"""The whole tier: what it waits for, what it refuses, what outlives a crash."""

import asyncio
from dataclasses import replace
from math import inf
from unittest.mock import patch

import pytest

from tests.cold.tiering import (
    CLUSTER,
    KEYS,
    NODE,
    TIERING,
    TOPIC,
    TOPIC_ID,
    TierNode,
    bucket_of,
    data_of,
    eager,
    head_in,
    play,
    play_node,
    second_partition,
)
from tests.hot.support import append, batch, read_values, values_of
from tierlog.cold.clusterstate import decode_state
from tierlog.cold.collector import REFUSED_MS, PartitionCollector
from tierlog.cold.head import Incarnation
from tierlog.cold.layout import STATE, cluster_prefix
from tierlog.cold.merger import Merger
from tierlog.cold.refusals import ForeignIncarnation
from tierlog.cold.tiersettings import DAY_MS
from tierlog.errors import TierlogError
from tierlog.objectstore.errors import StoreLies, StoreUnavailable
from tierlog.objectstore.probe import probe
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.types import LeaderEpoch, Offset

STATE_KEY = cluster_prefix("", CLUSTER) + STATE


async def seconds(count: float) -> None:
    await asyncio.sleep(count)


# The probe


def test_a_store_that_lies_is_refused_at_the_start() -> None:
    async def scenario(node: TierNode) -> None:
        async def lie() -> None:
            raise StoreLies("two racers won")

        node.probe = lie
        with pytest.raises(StoreLies):
            await node.open()
        assert not bucket_of(node).landed

    play_node(scenario)


def test_the_store_is_probed_by_the_race_unless_told_otherwise() -> None:
    async def scenario(node: TierNode) -> None:
        node.probe = None
        bucket_of(node).faults.ignores_conditions = True
        with pytest.raises(StoreLies):
            await node.open()

    play_node(scenario)


def test_a_store_that_is_away_is_waited_for_with_growing_pauses() -> None:
    async def scenario(node: TierNode) -> None:
        node.store.is_closed = True
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(400)
        assert (node.tier.is_ready, node.prefix.head) == (False, None)
        assert node.tier.last_error is not None
        assert 8 < node.tier.stats.probe_count < 25
        assert read_values(node.log) == {0: b"a"}
        node.store.is_closed = False
        await seconds(65)
        assert head_in(bucket_of(node)).next_offset == 1

    play_node(scenario)


def test_a_store_that_hangs_does_not_hold_up_the_start() -> None:
    async def scenario(node: TierNode) -> None:
        async def hang() -> None:
            await seconds(1000)

        node.probe = hang
        loop = asyncio.get_running_loop()
        began = loop.time()
        await node.open()
        assert 4 < loop.time() - began < 6
        await node.produce_sealed(b"a")
        await seconds(900)
        assert (read_values(node.log), node.prefix.head) == ({0: b"a"}, None)
        await seconds(105)
        assert node.prefix.uploaded_end == 1

    play_node(scenario)


def test_a_start_takes_no_longer_than_the_store() -> None:
    async def scenario(node: TierNode) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await node.open()
        assert loop.time() - began < 1

    play_node(scenario)


def test_an_outage_later_on_is_ended_by_a_probe() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(3)
        node.store.is_closed = True
        await node.produce_sealed(b"b")
        await seconds(300)
        assert not node.tier.is_ready
        assert node.store.asked < 200
        probed = node.tier.stats.probe_count
        node.store.is_closed = False
        await seconds(65)
        assert (node.tier.stats.probe_count, node.prefix.uploaded_end) == (probed + 1, 2)
        assert node.partition.status.last_error is None

    play_node(scenario)


def test_a_lie_that_is_found_after_an_outage_stops_everything() -> None:
    async def scenario(node: TierNode) -> None:
        is_lying = False

        async def lie() -> None:
            if is_lying:
                raise StoreLies("a stale write won")

        node.probe = lie
        node.store.is_closed = True
        await node.open()
        is_lying = True
        node.store.is_closed = False
        await node.produce_sealed(b"a")
        await seconds(100)
        assert isinstance(node.tier.refusal, StoreLies)
        assert not bucket_of(node).landed
        assert read_values(node.log) == {0: b"a"}

    play_node(scenario)


# STATE


def test_a_topic_stands_in_the_state_before_its_first_publish() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(3)
        landed = [each.key for each in bucket_of(node).landed]
        state = decode_state(bucket_of(node).shelf.items[STATE_KEY].data)
        assert state.topics == {TOPIC_ID: TOPIC}
        with_topic = [
            number
            for number, each in enumerate(bucket_of(node).landed)
            if each.key == STATE_KEY and decode_state(each.item.data).topics
        ]
        assert with_topic[0] < landed.index(KEYS.head)

    play_node(scenario)


def test_a_change_of_the_topic_is_written_at_once() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await seconds(1)
        altered = replace(TOPIC, configs={"retention.ms": "5"})
        node.tier.reconfigure(TOPIC_ID, altered, TIERING)
        await seconds(1)
        state = decode_state(bucket_of(node).shelf.items[STATE_KEY].data)
        assert state.topics == {TOPIC_ID: altered}

    play_node(scenario)


def test_a_deleted_topic_is_deleted_in_the_state() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(2)
        await node.tier.detach(TOPIC_ID, 0)
        await node.tier.delete_topic(TOPIC_ID)
        await node.tier.maker.copies.remove(TOPIC_ID, 0)
        state = decode_state(bucket_of(node).shelf.items[STATE_KEY].data)
        assert (dict(state.topics), list(state.deleted)) == ({}, [TOPIC_ID])
        assert await node.tier.maker.copies.load(TOPIC_ID, 0) is None

    play_node(scenario)


def test_a_topic_that_stands_as_deleted_is_not_published() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(2)
        await node.tier.detach(TOPIC_ID, 0)
        await node.tier.delete_topic(TOPIC_ID)
        before = bucket_of(node).versions(KEYS.head)
        epoch = LeaderEpoch(2)
        await node.tier.attach(TOPIC_ID, TOPIC, 0, node.log, leader_epoch=epoch, tiering=TIERING)
        await node.produce_sealed(b"b")
        await seconds(20)
        assert bucket_of(node).versions(KEYS.head) == before
        error = node.partition.status.last_error
        assert error is not None
        assert "is deleted" in error

    play_node(scenario)


def test_another_life_of_the_cluster_ends_this_one() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def live(incarnation: Incarnation) -> TierlogError | None:
            node = TierNode(world.env(NODE), bucket)
            node.incarnation = incarnation
            await node.open()
            return node.tier.refusal

        assert await world.start(NODE, live(Incarnation(1, "one")), what="first") is None
        world.kill(NODE)
        why = await world.start(NODE, live(Incarnation(1, "other")), what="second")
        assert isinstance(why, ForeignIncarnation), "it serves, what it has can still be read"

    play(scenario)


# Sealing


def test_what_has_waited_for_the_longest_lag_is_sealed_and_uploaded() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, upload_lag_max_ms=10_000)
        await node.open()
        node.produce(b"a")
        await seconds(9)
        assert node.prefix.head is None
        assert node.partition.status.lag_ms > 8000
        await seconds(3)
        assert node.prefix.uploaded_end == 1
        await seconds(30)
        assert node.tier.stats.publish_count == 1, "an empty segment is not sealed"

    play_node(scenario)


def test_a_clock_that_was_set_back_does_not_keep_records_from_the_bucket() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def live() -> None:
            node = TierNode(world.env(NODE), bucket)
            node.tiering = replace(TIERING, upload_lag_max_ms=10_000)
            await node.open()
            node.produce(b"a")
            world.host(NODE).clock.step(-3_600_000)
            await seconds(12)
            assert node.prefix.uploaded_end == 1

        await world.start(NODE, live(), what="live")

    play(scenario)


def test_a_clock_that_was_set_back_does_not_put_off_what_was_put_off_before() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def live() -> None:
            node = TierNode(world.env(NODE), bucket)
            node.settings = replace(node.settings, merge_interval_ms=20_000)
            node.tiering = eager()
            await node.open()
            for number in range(8):
                await node.produce_sealed(b"%d" % number)
            await seconds(5)
            (collector,) = (
                one for one in node.partition.chores if isinstance(one, PartitionCollector)
            )
            (merger,) = (one for one in node.partition.chores if isinstance(one, Merger))
            now_ms = node.env.clock.now_ms()
            collector._refused["seg/x"] = now_ms + REFUSED_MS
            assert now_ms < merger.due_from_ms < inf
            orphans = node.tier.orphans
            world.host(NODE).clock.step(-DAY_MS)
            await seconds(2)
            now_ms = node.env.clock.now_ms()
            assert collector._refused["seg/x"] <= now_ms + REFUSED_MS
            assert merger.due_from_ms <= now_ms + 20_000
            assert orphans.due_from_ms <= now_ms + orphans._round_ms

        await world.start(NODE, live(), what="live")

    play(scenario)


# Other leaders


def test_a_partition_with_a_newer_leader_is_not_uploaded_any_more() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def old() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            await node.produce_sealed(b"a")
            await seconds(10)
            await node.produce_sealed(b"b")
            await seconds(60)
            assert node.partition.is_fenced
            error = node.partition.status.last_error
            assert error is not None
            assert "leader epoch 2" in error
            assert read_values(node.log, 1) == {1: b"b"}

        async def new() -> None:
            node = await TierNode(world.env("other"), bucket, leader_epoch=2).open()
            await seconds(5)
            await node.produce_sealed(b"other a")
            await node.produce_sealed(b"other b")
            await seconds(60)

        await asyncio.gather(
            world.start(NODE, old(), what="old"), world.start("other", new(), what="new")
        )
        head = head_in(bucket)
        assert head.writer.leader_epoch == 2
        assert [list(values_of(data_of(bucket, one))) for one in head.entries][:1] == [[b"a"]]

    play(scenario)


def test_a_log_that_ends_before_the_bucket_does_is_not_uploaded() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = await TierNode(world.env(NODE), bucket).open()
            for _ in range(3):
                await node.produce_sealed(b"a")
            await seconds(10)

        async def second() -> None:
            node = await TierNode(world.env("other"), bucket, leader_epoch=2).open()
            await node.produce_sealed(b"b")
            await seconds(10)
            error = node.partition.status.last_error
            assert error is not None
            assert "it ends at 1, the bucket at 3" in error
            assert node.log.log_start == 0

        await world.start(NODE, first(), what="first")
        await world.start("other", second(), what="second")
        assert head_in(bucket).next_offset == 3

    play(scenario)


# DeleteRecords


def test_moving_the_log_start_is_done_when_it_is_in_head() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        for _ in range(3):
            await node.produce_sealed(b"x")
        await seconds(3)
        await node.tier.move_log_start(TOPIC_ID, 0, Offset(2))
        assert head_in(bucket_of(node)).log_start == node.prefix.log_start == 2
        assert not node.prefix.covers(Offset(1))
        assert node.prefix.covers(Offset(2))

    play_node(scenario)


# Restarts


def test_a_restart_without_the_store_knows_what_is_cold() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = TierNode(world.env(NODE), bucket)
            node.tiering = eager()
            await node.open()
            await node.produce_sealed(b"a")
            await seconds(5)
            assert node.log.log_start == 1
            await node.log.settle()

        async def second() -> None:
            node = TierNode(world.env(NODE), bucket, leader_epoch=2)
            node.store.is_closed = True
            await node.open()
            assert node.prefix.head == head_in(bucket)
            assert (node.prefix.uploaded_end, node.log.log_start) == (1, 1)
            entry = await node.prefix.entry_for(Offset(0))
            assert entry is not None
            assert entry.base == 0

        await world.start(NODE, first(), what="first")
        world.power_cut(NODE)
        await world.start(NODE, second(), what="second")

    play(scenario)


def test_stopping_ends_what_is_under_way() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(0.15)
        await node.tier.stop()
        landed = len(bucket_of(node).landed)
        await seconds(30)
        assert len(bucket_of(node).landed) <= landed + 1, "what was on its way"
        await node.log.close()

    for seed in range(5):
        play_node(scenario, seed)


class Unlucky:
    """A chore of the node to which the store, or a bug, does always the same."""

    name = "unlucky"
    due_from_ms = 0.0

    def __init__(self, fault: Exception) -> None:
        self.fault = fault
        self.turns = 0

    async def run(self) -> None:
        self.turns += 1
        raise self.fault


@pytest.mark.parametrize("fault", [StoreUnavailable("one object"), OSError("disk"), KeyError("x")])
def test_what_happens_to_a_chore_of_the_node_does_not_make_uploads_wait(fault: Exception) -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        chore = Unlucky(fault)
        node.tier.chores.append(chore)
        for number in range(1, 41):
            await node.produce_sealed(b"x")
            await seconds(2)
            assert node.prefix.uploaded_end == number
            assert (node.tier.pace.failure_count, node.tier.last_error) == (0, None)
        assert 3 < chore.turns < 12, "with growing pauses"

    play_node(scenario)


def test_a_turn_that_stumbles_does_not_end_the_uploads_of_the_node() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        with patch.object(node.tier, "_look", side_effect=KeyError("a bug")):
            await seconds(1)
        await node.produce_sealed(b"a")
        await seconds(15)
        assert node.prefix.uploaded_end == 1

    play_node(scenario)


def test_a_partition_that_cannot_be_looked_at_does_not_keep_others_from_their_turn() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        other = await second_partition(node)
        with patch.object(node.partition, "look", side_effect=KeyError("a bug")):
            append(other.log, batch(b"a"))
            other.log.roll()
            await other.log.settle()
            await node.produce_sealed(b"a")
            await seconds(15)
            assert (node.prefix.uploaded_end, other.prefix.uploaded_end) == (0, 1)
            assert node.partition.status.last_error is not None
        await seconds(60)
        assert node.prefix.uploaded_end == 1

    play_node(scenario)


def test_a_busy_partition_drops_and_lets_the_others_have_their_turn() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = eager()
        node.settings = replace(node.settings, uploads_at_once=1)
        await node.open()
        name, other = "f" * 32, replace(TOPIC, name="quiet")
        log = await node.tier.maker.open_log(
            node.directory,
            f"{name}-0",
            node.logs,
            topic_id=name,
            topic=other,
            index=0,
            leader_epoch=LeaderEpoch(1),
            tiering=node.tiering,
            is_first=True,
        )
        quiet = await node.tier.attach(
            name, other, 0, log, leader_epoch=LeaderEpoch(1), tiering=node.tiering
        )
        is_over = False

        async def produce() -> None:
            while not is_over:
                await node.produce_sealed(b"x" * 100)
                await seconds(0.05)

        busy = asyncio.ensure_future(produce())
        await seconds(3)
        append(log, batch(b"quiet", timestamp=1), leader_epoch=1, now_ms=1)
        log.roll()
        await seconds(30)
        assert quiet.uploaded_end == 1
        assert node.log.log_start > 0
        is_over = True
        await busy

    play_node(scenario)


def test_nothing_is_written_to_a_place_where_the_cluster_should_be_and_is_not() -> None:
    """As the empty folder of a disk that is not mounted."""

    async def scenario(node: TierNode) -> None:
        await node.open()
        node.tier.is_ready = False
        node.tier.membership.probe = lambda: probe(node.store, node.env.rng)
        shelf = bucket_of(node).shelf
        there = dict(shelf.items)
        shelf.items.clear()
        await seconds(30)
        assert (list(shelf.items), node.tier.is_ready) == ([], False)
        shelf.items.update(there)
        await seconds(90)
        assert node.tier.is_ready

    play_node(scenario)
