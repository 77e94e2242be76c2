"""Restore: what the bucket alone brings back, whom it fences, and that it can be repeated."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from tests.cold.scripted import ScriptedStore
from tests.cold.segments import a_segment
from tests.hot.support import FixedClock, append, batch, open_log
from tierlog.broker.node import Node
from tierlog.cold import tree
from tierlog.cold.changes import Append, MoveLogStart
from tierlog.cold.clusterstate import ClusterState, TopicRecord, decode_state
from tierlog.cold.codec import decode_head
from tierlog.cold.head import Head, Incarnation, Writer
from tierlog.cold.layout import PartitionKeys, cluster_prefix, segment_key
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.publisher import Place, Publisher
from tierlog.cold.refusals import ClusterUnknown, ForeignIncarnation
from tierlog.cold.report import Outcome, PartitionReport, Report
from tierlog.cold.restore import find_clusters, restore
from tierlog.cold.restoreplan import is_unfinished
from tierlog.cold.segment_scan import SegmentScan
from tierlog.cold.statekeeper import StateKeeper
from tierlog.cold.tree import LIMITS, Limits
from tierlog.config import NodeSettings
from tierlog.env import Env
from tierlog.hot import LogDirectory, LogSettings
from tierlog.hot.epochs import EpochStart
from tierlog.metastore import LocalMetaStore, values
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed
from tierlog.sim import SimWorld
from tierlog.sim.disk import SimDisk
from tierlog.types import LeaderEpoch, Offset

CLUSTER = "the-cluster"
PREFIX = cluster_prefix("", CLUSTER)
FIRST_LIFE = Incarnation(1, CLUSTER)
ORDERS, QUIET, COMPACTED = "a" * 32, "b" * 32, "c" * 32
TOPICS = {
    ORDERS: TopicRecord(name="orders", partitions=2, configs={"retention.ms": "123"}),
    QUIET: TopicRecord(name="quiet", partitions=1),
    COMPACTED: TopicRecord(name="latest", partitions=1, configs={"cleanup.policy": "compact"}),
}
SMALL_PAGES = Limits(entries_inline=2, leaf_entries=2, leaves_inline=2, index_leaves=4)
DATA = "/new"


async def producer_snapshot(end: int) -> bytes:
    """Of producer 7, whose sequence 0 lies just before `end`."""
    log, syncs = open_log(SimDisk(), start=end - 1)
    append(log, sent(0), now_ms=FixedClock().ms)
    log.roll()
    syncs.run_all()
    return await log.producers_at(Offset(end))


def sent(sequence: int) -> bytearray:
    return batch(b"x", producer_id=7, producer_epoch=0, base_sequence=sequence)


class OldCluster:
    """What was there before everything but the bucket went."""

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.env = world.env("old")
        self.store = ScriptedStore(self.env.clock)
        self.keeper = StateKeeper(
            self.store, PREFIX, self.env, cluster_id=CLUSTER, incarnation=FIRST_LIFE
        )
        self.leaders: dict[int, Publisher] = {}

    async def found(self) -> None:
        await self.keeper.join()
        await self.keeper.put_topics(TOPICS)

    def leader(self, partition: int, *, epoch: int = 5) -> Publisher:
        return Publisher(
            self.store,
            PartitionKeys(PREFIX, ORDERS, partition),
            self.env,
            place=Place(topic="orders", topic_id=ORDERS, partition=partition, partition_count=2),
            writer=Writer(LeaderEpoch(epoch), "old process"),
            incarnation=FIRST_LIFE,
        )

    async def publish(self, partition: int, count: int, *, limits: Limits = SMALL_PAGES) -> Head:
        """So many more segments, each of 39 records."""
        leader = self.leaders.setdefault(partition, self.leader(partition))
        head = await leader.claim()
        for _ in range(count):
            head = await leader.commit(await self.upload(leader, head.next_offset, limits))
        return head

    async def upload(
        self,
        leader: Publisher,
        base: Offset,
        limits: Limits = SMALL_PAGES,
        *,
        lineage: tuple[tuple[int, int], ...] = ((5, 0),),
        batches: int = 20,
    ) -> Append:
        epoch = lineage[-1][0]
        segment = a_segment(base=base, epochs=(epoch,), batches=batches)
        scan = SegmentScan(
            topic="orders",
            topic_id=ORDERS,
            partition=leader.place.partition,
            base=segment.base,
            last=segment.last,
            size=len(segment.data),
            index_interval_bytes=500,
        )
        scan.feed(segment.data)
        key = segment_key(
            base=segment.base,
            last=segment.last,
            leader_epoch=LeaderEpoch(epoch),
            node=1,
            attempt=self.env.rng.randrange(1 << 60),
        )
        tail = scan.finish(
            key=key,
            producers=await producer_snapshot(segment.last + 1),
            max_append_ms=5,
            lineage=tuple(EpochStart(LeaderEpoch(one), Offset(start)) for one, start in lineage),
        )
        await self.store.put_if_absent(leader.keys.full(key), BytesBody(segment.data + tail.data))
        return Append([tail.entry], store=self.store, keys=leader.keys, env=self.env, limits=limits)

    def head(self, topic_id: str, partition: int) -> Head:
        key = PartitionKeys(PREFIX, topic_id, partition).head
        return decode_head(self.store.shelf.items[key].data, key=key)

    def state(self) -> ClusterState:
        return decode_state(self.store.shelf.items[PREFIX + "cluster/STATE"].data)

    async def restore(self, *, host: str = "new", cluster_id: str | None = None) -> Report:
        return await restore(
            self.world.env(host), self.store, DATA, cluster_id=cluster_id, node_id=3
        )


def play(scenario: Callable[[OldCluster], Coroutine[Any, Any, None]]) -> None:
    world = SimWorld(1)

    async def run() -> None:
        old = OldCluster(world)
        await old.found()
        await scenario(old)

    world.run(run())


def by_place(report: Report) -> dict[tuple[str, int], Outcome]:
    return {(one.topic, one.partition): one.outcome for one in report.partitions}


def orders_0(report: Report) -> PartitionReport:
    return next(one for one in report.partitions if (one.topic, one.partition) == ("orders", 0))


async def check_directory(env: Env, old: OldCluster, *, ends: tuple[int, int]) -> None:
    """Everything that a node will look for."""
    assert not is_unfinished(env.disk, DATA)
    metastore = await LocalMetaStore.open(env, f"{DATA}/meta")
    content = {entry.key: entry.value for entry in (await metastore.list("/"))[0]}
    await metastore.close()
    cluster = values.ClusterState.from_bytes(content[values.CLUSTER])
    assert (cluster.id, cluster.incarnation) == (CLUSTER, 2)
    assert old.state().incarnation == (2, cluster.incarnation_id)
    ids = values.ProducerIdsState.from_bytes(content[values.PRODUCER_IDS])
    assert ids == values.ProducerIdsState(incarnation=2, next=0)
    for topic_id, topic in TOPICS.items():
        raw = bytes.fromhex(topic_id)
        found = values.TopicState.from_bytes(content[values.topic_key(raw)])
        assert (found.name, found.configs) == (topic.name, topic.configs)
        assert content[values.name_key(topic.name)].decode() == topic_id
        for index in range(topic.partitions):
            value = content[values.partition_key(raw, index)]
            state = values.PartitionState.from_bytes(value)
            assert (state.leader, state.leader_epoch) == (3, 6)
    await check_logs(env, old, ends=ends)


async def check_logs(env: Env, old: OldCluster, *, ends: tuple[int, int]) -> None:
    copies = LocalCopies(env, f"{DATA}/cold")
    directory = LogDirectory(env, f"{DATA}/log")
    for partition, end in enumerate(ends):
        assert await copies.load(ORDERS, partition) == old.head(ORDERS, partition)
        log = await directory.open_log(f"{ORDERS}-{partition}", LogSettings())
        assert (log.log_start, log.log_end) == (end, end)
        if end:
            assert log.epochs.entries == (EpochStart(LeaderEpoch(5), Offset(end)),)
            again = append(log, sent(0), leader_epoch=6, now_ms=FixedClock().ms)
            assert again.is_duplicate, "a producer that was not answered tries again"
        await log.close()
    directory.close()


def test_everything_published_comes_back_and_the_old_cluster_is_fenced() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 11)
        await old.publish(1, 1)
        report = await old.restore()
        assert report.is_sound
        assert by_place(report) == {
            ("orders", 0): Outcome.RESTORED,
            ("orders", 1): Outcome.RESTORED,
            ("quiet", 0): Outcome.EMPTY,
            ("latest", 0): Outcome.UNTIERED,
        }
        await check_directory(old.world.env("new"), old, ends=(429, 39))
        for partition, leader in old.leaders.items():
            end = Offset(39 if partition else 429)
            with pytest.raises(ForeignIncarnation):
                await leader.commit(await old.upload(leader, end))
            with pytest.raises(ForeignIncarnation):
                await old.leader(partition, epoch=99).claim()
        with pytest.raises(ForeignIncarnation):
            await old.keeper.refresh()

    play(scenario)


def test_a_node_starts_on_what_was_restored() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 2)
        await old.restore()
        await old.world.start("new", serve(old.world.env("new")), what="serve")

    async def serve(env: Env) -> None:
        node = await Node.open(env, NodeSettings(node_id=3), DATA)
        await node.start()
        assert node.cluster_id == CLUSTER
        assert sorted(topic.name for topic in node.topics) == ["latest", "orders", "quiet"]
        first, second = node.topics.by_name["orders"].partitions
        assert (first.log.log_start, first.log.log_end, second.log.log_end) == (78, 78, 0)
        assert first.leader_epoch == 7, "the claim has 6, and every start takes the next"
        assert await node.producer_ids.take() == 2 << 40
        await node.stop()

    play(scenario)


def test_a_report_says_what_is_back_and_what_is_not() -> None:
    async def scenario(old: OldCluster) -> None:
        published_ms = (await old.publish(0, 3)).published_ms
        await old.keeper.put_topics({"d" * 32: TopicRecord(name="gone", partitions=1)})
        await old.keeper.delete_topic("d" * 32)
        await asyncio.sleep(60)
        report = await old.restore()
        assert report.deleted == ("gone",)
        first = {one.topic: one for one in report.partitions if one.partition == 0}
        assert first["orders"].outcome is Outcome.RESTORED
        assert (first["orders"].log_start, first["orders"].next_offset) == (0, 117)
        assert first["orders"].published_ms == published_ms, "not when the restore claimed it"
        assert first["latest"].outcome is Outcome.UNTIERED
        assert first["quiet"].published_ms == first["latest"].published_ms == -1

    play(scenario)


def test_a_partition_that_never_published_is_fenced_as_well() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 1)
        await old.restore()
        with pytest.raises(ForeignIncarnation):
            await old.publish(1, 1)

    play(scenario)


def test_a_log_begins_behind_what_deleterecords_took() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 1)
        await old.leaders[0].commit(MoveLogStart(Offset(50)))
        report = await old.restore()
        assert orders_0(report).next_offset == 50

    play(scenario)


async def count_calls(old: OldCluster, work: Callable[[], Awaitable[object]]) -> int:
    before = old.store.calls
    await work()
    return old.store.calls - before


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_restore_that_dies_anywhere_goes_on_when_it_is_repeated(step: int) -> None:
    """At every request to the store, and after it took effect."""

    class Died(Exception):
        pass

    async def total(old: OldCluster) -> None:
        await old.publish(0, 5)
        calls.append(await count_calls(old, old.restore))

    calls: list[int] = []
    play(total)
    assert calls[0] > 30
    for number in range(0, calls[0], step):
        for after in (False, True):

            async def scenario(old: OldCluster, number: int = number, after: bool = after) -> None:
                await old.publish(0, 5)
                old.store.die(old.store.calls + number, Died(), after=after)
                with pytest.raises(Died):
                    await old.restore()
                is_planned = is_unfinished(old.world.env("new").disk, DATA)
                assert is_planned or len(old.state().lineage) == 1, "the plan comes first"
                report = await old.restore()
                assert report.is_sound
                assert len(old.state().lineage) == 2
                await check_directory(old.world.env("new"), old, ends=(195, 0))

            play(scenario)


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_the_power_may_go_at_any_moment_of_a_restore(step: int) -> None:
    """At an operation of the disk, and a later one, until one is behind the end."""

    async def scenario(old: OldCluster) -> None:
        world = old.world
        await old.publish(0, 3)
        cut = world.power_cut_after("new", operation)
        answer = world.start("new", old.restore(), what="restore")
        either: set[asyncio.Future[Any]] = {cut, answer}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if answer.done() and answer.exception() is None:
            ended.append(operation)
            return
        await cut
        disk = world.disk("new")
        if is_unfinished(disk, DATA) or not disk.exists(f"{DATA}/meta"):
            report = await world.start("new", old.restore(), what="again")
            assert report.is_sound
        check = check_directory(world.env("new"), old, ends=(117, 0))
        await world.start("new", check, what="check")

    ended: list[int] = []
    operation = 1
    while not ended:
        play(scenario)
        operation += step
    assert ended[0] > 50


def test_of_two_restores_the_later_one_wins_and_the_other_says_so() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 1)

        async def rival() -> None:
            await old.restore(host="rival")

        old.store.before_write = rival
        with pytest.raises(ForeignIncarnation):
            await old.restore()
        with pytest.raises(ForeignIncarnation):
            await old.restore()
        assert len(old.state().lineage) == 2

    play(scenario)


def test_an_old_leader_that_claims_meanwhile_does_not_stop_the_restore() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 1)

        async def begun() -> None:
            old.store.before_write = restarts

        async def restarts() -> None:
            await old.leader(0, epoch=40).claim()

        old.store.before_write = begun
        await old.restore()
        head = old.head(ORDERS, 0)
        assert (head.incarnation.number, head.writer.leader_epoch) == (2, 41)

    play(scenario)


def test_a_restore_can_be_restored() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 1)
        await old.restore()
        report = await old.restore(host="third")
        assert report.is_sound
        assert [life.incarnation.number for life in old.state().lineage] == [1, 2, 3]

    play(scenario)


# What is refused, and what is damaged


def test_a_directory_that_is_not_empty_is_refused() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.restore()
        with pytest.raises(ClusterUnknown, match="not empty"):
            await old.restore()

    play(scenario)


def test_a_cluster_must_be_named_if_there_are_several() -> None:
    async def scenario(old: OldCluster) -> None:
        for other in ("the-cluster-2", "aaa"):
            keeper = StateKeeper(
                old.store,
                cluster_prefix("", other),
                old.env,
                cluster_id=other,
                incarnation=Incarnation(1, other),
            )
            await keeper.join()
        await old.store.put("zzz/unrelated", BytesBody(b"x"))
        assert await find_clusters(old.store) == ["aaa", "the-cluster-2", "the-cluster"]
        with pytest.raises(ClusterUnknown, match="name one with --cluster-id: aaa"):
            await old.restore()
        assert (await old.restore(cluster_id="aaa")).partitions == ()

    play(scenario)


def test_an_unknown_cluster_is_refused_and_leaves_nothing_behind() -> None:
    async def scenario(old: OldCluster) -> None:
        with pytest.raises(ClusterUnknown, match="no cluster/STATE"):
            await old.restore(cluster_id="unheard-of")
        assert not old.world.env("new").disk.exists(DATA)

    play(scenario)


def test_a_head_that_is_gone_is_made_again_from_the_segments() -> None:
    async def scenario(old: OldCluster) -> None:
        before = await old.publish(0, 40, limits=LIMITS)
        await old.store.delete([Doomed(old.leaders[0].keys.head)])
        report = await old.restore()
        assert report.is_complete
        assert by_place(report)["orders", 0] is Outcome.REBUILT
        assert orders_0(report).problems == (
            f"{old.leaders[0].keys.head} is gone: made again from the segments",
        )
        after = old.head(ORDERS, 0)
        assert tree.last_chain(after) == tree.last_chain(before)
        assert (after.next_offset, after.records) == (before.next_offset, before.records)
        await check_directory(old.world.env("new"), old, ends=(40 * 39, 0))

    play(scenario)


def test_what_several_leaders_uploaded_is_taken_once() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 3)
        for base in (0, 39, 60, 70):
            await old.upload(old.leaders[0], Offset(base))
        await old.store.delete([Doomed(old.leaders[0].keys.head)])
        report = await old.restore()
        assert len(orders_0(report).problems) == 1
        assert old.head(ORDERS, 0).next_offset == 117

    play(scenario)


def test_a_replaced_leader_that_uploaded_further_has_no_say_in_a_new_head() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 1)
        leader = old.leaders[0]
        await old.upload(leader, Offset(39), lineage=((5, 0),), batches=50)
        theirs = max(key for key in old.store.shelf.items if "/seg/" in key)
        mine = ((5, 0), (6, 39))
        await old.upload(leader, Offset(39), lineage=mine)
        await old.upload(leader, Offset(78), lineage=mine)
        await old.store.delete([Doomed(leader.keys.head)])
        report = await old.restore()
        head = old.head(ORDERS, 0)
        assert [tuple(one) for one in head.leader_epochs] == list(mine)
        assert f"{leader.keys.relative(theirs)} is not used: from offset 39" in str(
            orders_0(report).problems
        )
        assert "not what the leader of epoch 6 wrote" in str(orders_0(report).problems)
        assert [one.leader_epochs[-1].leader_epoch for one in head.entries] == [5, 6, 6]
        assert head.next_offset == 138, "their offsets were given out, too"

    play(scenario)


def test_a_segment_that_is_not_whole_is_not_used_for_a_new_head() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 3)
        keys = sorted(key for key in old.store.shelf.items if "/seg/" in key)
        data = bytearray(old.store.shelf.items[keys[1]].data)
        data[100] ^= 1
        await old.store.put(keys[1], BytesBody(bytes(data)))
        await old.store.delete([Doomed(old.leaders[0].keys.head)])
        report = await old.restore()
        assert "its batches are not those that were uploaded" in str(orders_0(report).problems)
        assert "offsets 39 to 78 are missing" in str(orders_0(report).problems)
        assert orders_0(report).next_offset == 117

    play(scenario)


def test_offsets_of_a_damaged_last_segment_are_not_given_out_again() -> None:
    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 3)
        last = max(key for key in old.store.shelf.items if "/seg/" in key)
        await old.store.put(last, BytesBody(b"x"))
        await old.store.delete([Doomed(old.leaders[0].keys.head)])
        report = await old.restore()
        assert orders_0(report).next_offset == 117
        assert "offsets 78 to 117 are missing" in str(orders_0(report).problems)

    play(scenario)


@pytest.mark.parametrize("step", [40, pytest.param(7, marks=pytest.mark.slow)])
def test_a_head_is_made_again_whole_or_not_at_all(step: int) -> None:
    class Died(Exception):
        pass

    async def lose_head(old: OldCluster) -> None:
        await old.publish(0, 33, limits=LIMITS)
        await old.store.delete([Doomed(old.leaders[0].keys.head)])

    async def total(old: OldCluster) -> None:
        await lose_head(old)
        calls.append(await count_calls(old, old.restore))

    calls: list[int] = []
    play(total)
    for number in range(4, calls[0], step):

        async def scenario(old: OldCluster, number: int = number) -> None:
            await lose_head(old)
            old.store.die(old.store.calls + number, Died(), after=True)
            with pytest.raises(Died):
                await old.restore()
            report = await old.restore()
            assert report.is_complete
            await check_directory(old.world.env("new"), old, ends=(33 * 39, 0))

        play(scenario)


def test_a_head_that_cannot_be_read_is_made_again_from_the_segments() -> None:
    async def scenario(old: OldCluster) -> None:
        before = await old.publish(0, 40, limits=LIMITS)
        await old.store.put(old.leaders[0].keys.head, BytesBody(b"garbage"))
        report = await old.restore()
        assert by_place(report)["orders", 0] is Outcome.REBUILT
        (problem,) = orders_0(report).problems
        assert "cannot be read" in problem
        assert "made again from the segments" in problem
        assert report.is_complete
        after = old.head(ORDERS, 0)
        assert (after.next_offset, after.records) == (before.next_offset, before.records)
        await check_directory(old.world.env("new"), old, ends=(40 * 39, 0))

    play(scenario)


def test_a_head_that_cannot_be_read_is_not_taken_for_an_empty_partition() -> None:
    """Without a segment nobody can tell where its offsets end."""

    async def scenario(old: OldCluster) -> None:
        await old.publish(0, 0)
        key = old.leaders[0].keys.head
        kept = old.store.shelf.items[key].data
        await old.store.put(key, BytesBody(b"garbage"))
        report = await old.restore()
        assert by_place(report)["orders", 0] is Outcome.LOST
        assert "delete it and restore again" in str(orders_0(report).problems)
        assert not report.is_complete
        assert is_unfinished(old.world.env("new").disk, DATA)
        await old.store.put(key, BytesBody(kept))
        assert (await old.restore()).is_sound

    play(scenario)


@pytest.mark.parametrize("what", ["seg/", "page/"])
def test_what_is_missing_is_named_and_the_rest_comes_back(what: str) -> None:
    async def scenario(old: OldCluster) -> None:
        head = await old.publish(0, 11)
        prefix = old.leaders[0].keys.full(what)
        referred = {old.leaders[0].keys.full(ref.key) for ref in (*head.indexes, *head.leaves)}
        found = [key for key in old.store.shelf.items if key.startswith(prefix)]
        victim = next(key for key in found if what == "seg/" or key in referred)
        await old.store.delete([Doomed(victim)])
        report = await old.restore()
        assert report.is_complete
        assert not report.is_sound
        assert victim.removeprefix(old.leaders[0].keys.prefix) in str(orders_0(report).problems)
        assert orders_0(report).next_offset == 429

    play(scenario)


def test_a_page_that_was_changed_is_named() -> None:
    async def scenario(old: OldCluster) -> None:
        head = await old.publish(0, 11)
        key = old.leaders[0].keys.full(head.indexes[0].key)
        await old.store.put(key, BytesBody(old.store.shelf.items[key].data + b"x"))
        assert "bytes" in str(orders_0(await old.restore()).problems)

    play(scenario)


def test_a_last_segment_without_its_footer_costs_only_the_producers() -> None:
    async def scenario(old: OldCluster) -> None:
        head = await old.publish(0, 3)
        key = old.leaders[0].keys.full(head.entries[-1].key)
        size = len(old.store.shelf.items[key].data)
        await old.store.put(key, BytesBody(b"x" * size))
        report = await old.restore()
        assert "producers of the last segment are unknown" in str(orders_0(report).problems)
        assert report.is_complete

    play(scenario)
