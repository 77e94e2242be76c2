"""Sealed segments become cold: whole, in order, once, and only if they are sound."""

import asyncio
from dataclasses import replace

from tests.cold.tiering import (
    KEYS,
    NODE,
    TierNode,
    bucket_of,
    data_of,
    head_in,
    play,
    play_node,
)
from tests.hot.support import batch, values_of
from tierlog.cold.codec import decode_head
from tierlog.cold.head import DELETE_RECORDS
from tierlog.cold.layout import parse_segment_key
from tierlog.cold.segment_object import parse_tail
from tierlog.hot.settings import FLUSH_NEVER
from tierlog.hot.snapshot import encode_snapshot
from tierlog.records.batch import patch_offset
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.types import LeaderEpoch, Offset


async def seconds(count: float) -> None:
    await asyncio.sleep(count)


def cold_values(bucket: SimBucket) -> list[bytes]:
    found: list[bytes] = []
    for entry in head_in(bucket).entries:
        found += values_of(data_of(bucket, entry))
    return found


def test_a_sealed_segment_is_uploaded_and_published() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a", b"b")
        node.produce(b"c")
        await seconds(2)
        bucket = bucket_of(node)
        head = head_in(bucket)
        assert (head.log_start, head.next_offset, head.writer.leader_epoch) == (0, 2, 1)
        (entry,) = head.entries
        file = node.env.disk.open(next(iter(node.log.segments)).path)
        assert data_of(bucket, entry) == file.pread(file.size(), 0)
        name = parse_segment_key(entry.key)
        assert name is not None
        assert (name.base, name.last, name.leader_epoch, name.node) == (0, 1, 1, 7)
        whole = bucket.shelf.items[KEYS.full(entry.key)].data
        footer = parse_tail(whole, object_size=len(whole), key=entry.key)
        section = footer.section("producers")
        assert section is not None
        assert whole[section.position :][: section.size] == encode_snapshot(())
        assert (node.prefix.uploaded_end, node.prefix.head) == (2, head)
        assert node.tier.stats.uploaded_segments == node.tier.stats.publish_count == 1
        assert node.tier.stats.uploaded_bytes == entry.size

    play_node(scenario)


def test_what_is_active_stays_hot() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        node.produce(b"a")
        await seconds(5)
        assert KEYS.head not in bucket_of(node).shelf.items
        assert node.prefix.head is None

    play_node(scenario)


def test_nothing_above_the_durable_end_is_uploaded() -> None:
    """At every request for a segment object, everything in it is durable on this disk."""

    async def scenario(node: TierNode) -> int:
        node.logs = replace(node.logs, flush_messages=FLUSH_NEVER, checkpoint_bytes=1 << 30)
        await node.open()
        sent = 0

        def watch(kind: str, key: str) -> None:
            nonlocal sent
            if kind == "put_if_absent" and "/seg/" in key:
                name = parse_segment_key(KEYS.relative(key) or "")
                assert name is not None
                assert name.last < node.log.durable_end
                sent += 1

        node.store.watch = watch
        for _ in range(40):
            node.produce(*[b"x" * 300] * 5)
            assert node.log.visible_end == node.log.log_end
            await seconds(0.07)
        return sent

    assert play_node(scenario) > 5


def test_a_backlog_is_published_by_few_commits() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        node.store.is_closed = True
        for number in range(20):
            await node.produce_sealed(b"%d" % number)
        await seconds(3)
        assert node.partition.status.backlog_segments == 20
        assert node.partition.status.lag_ms > 2000
        node.store.is_closed = False
        await seconds(120)
        assert head_in(bucket_of(node)).next_offset == 20
        assert node.tier.stats.publish_count == 3, "eight segments a commit"
        status = node.partition.status
        assert (status.backlog_bytes, status.backlog_segments, status.lag_ms) == (0, 0, 0)

    play_node(scenario)


def test_a_publish_that_failed_costs_no_second_upload() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()

        def watch(kind: str, key: str) -> None:
            if kind == "head":
                node.env.tasks.spawn(close(), name="close")

        async def close() -> None:
            node.store.is_closed = True

        await node.produce_sealed(b"a")
        await seconds(2)
        node.store.watch = watch
        await node.produce_sealed(b"b")
        await seconds(20)
        assert head_in(bucket_of(node)).next_offset == 1
        node.store.watch = lambda _kind, _key: None
        node.store.is_closed = False
        await seconds(120)
        assert head_in(bucket_of(node)).next_offset == 2
        assert len([each for each in bucket_of(node).landed if "/seg/" in each.key]) == 2

    play_node(scenario)


def test_a_damaged_segment_is_not_uploaded_and_says_so() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        node.store.is_closed = True
        for value in (b"a", b"b", b"c"):
            await node.produce_sealed(value * 100)
        file = node.env.disk.open(node.log.sealed()[1].path, write=True)
        file.pwrite(b"!", 100)
        node.store.is_closed = False
        await seconds(60)
        bucket = bucket_of(node)
        assert head_in(bucket).next_offset == 1, "what lies before it is cold"
        error = node.partition.status.last_error
        assert error is not None
        assert "CRC" in error
        assert not [each for each in bucket.landed if "/seg/00000000000000000001" in each.key]
        assert node.tier.last_error is None, "the store is well"
        await seconds(100)
        assert node.log.log_start == 1, "what is cold is dropped all the same"

    play_node(scenario)


DIRECTORY = f"/data/logs/{KEYS.topic_id}-0"


async def two_in_the_active_segment(world: SimWorld, bucket: SimBucket) -> None:
    """Offset 0 is cold, 1 and 2 are durable in the active segment; then the process is killed."""

    async def live() -> None:
        node = await TierNode(world.env(NODE), bucket).open()
        await node.produce_sealed(b"a")
        await seconds(2)
        node.produce(b"b" * 100, b"c" * 100)
        await node.log.settle()

    await world.start(NODE, live(), what="first life")
    world.kill(NODE)


def test_offsets_of_a_torn_write_are_skipped() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        await two_in_the_active_segment(world, bucket)
        active = world.disk(NODE).open(f"{DIRECTORY}/{1:020d}.log", write=True)
        torn = batch(b"torn" * 50)
        patch_offset(torn, Offset(3), LeaderEpoch(1))
        active.pwrite(torn[:90], active.size())

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            await node.produce_sealed(b"d")
            await seconds(5)
            head = head_in(bucket)
            assert (head.next_offset, node.partition.status.last_error) == (5, None)
            assert cold_values(bucket) == [b"a", b"b" * 100, b"c" * 100, b"d"]
            assert [(skip.start, skip.end) for skip in head.skips] == [(3, 4)]
            assert head.leader_epochs == node.log.epochs.entries
            entry = await node.prefix.entry_for(Offset(3))
            assert entry is not None
            assert (entry.base, head.log_start) == (4, 0)

        await world.start(NODE, second(), what="second life")

    play(scenario)


def test_nothing_behind_damaged_records_is_uploaded_until_they_are_given_up() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        await two_in_the_active_segment(world, bucket)
        world.disk(NODE).open(f"{DIRECTORY}/{1:020d}.log", write=True).pwrite(b"!", 100)
        world.disk(NODE).unlink(f"{DIRECTORY}/partition.checkpoint")

        async def second() -> None:
            node = await TierNode(world.env(NODE), bucket, leader_epoch=2).open()
            await node.produce_sealed(b"d")
            await seconds(5)
            assert head_in(bucket).next_offset == 1
            error = node.partition.status.last_error
            assert error is not None
            assert "offsets [1, 2) are damaged" in error
            node.log.trim(Offset(2))
            await seconds(60)
            assert (head_in(bucket).next_offset, head_in(bucket).log_start) == (4, 2)
            assert node.partition.status.last_error is None

        await world.start(NODE, second(), what="second life")

    play(scenario)


def test_records_deleted_before_their_upload_are_skipped() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(2)
        node.store.is_closed = True
        await node.produce_sealed(b"b")
        await node.produce_sealed(b"c")
        node.log.trim(Offset(2))
        await node.log.settle()
        node.store.is_closed = False
        await seconds(120)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset) == (2, 3)
        heads = [decode_head(data, key=KEYS.head) for data in bucket_of(node).versions(KEYS.head)]
        assert [(skip.start, skip.end) for one in heads for skip in one.skips][:1] == [(1, 2)]
        assert [entry.base for entry in head.entries] == [2]
        assert [one.why for one in head.garbage] == [DELETE_RECORDS], "its object goes in time"

    play_node(scenario)


def test_records_deleted_inside_a_segment_stay_deleted_once_it_is_cold() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(2)
        node.produce(b"b", b"c", b"d")
        await node.log.settle()
        node.log.trim(Offset(3))
        node.log.roll()
        await seconds(10)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset) == (3, 4)

    play_node(scenario)


def test_records_deleted_while_their_segment_is_published_stay_deleted() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(2)

        def watch(kind: str, key: str) -> None:
            if kind == "put_if_match" and key == KEYS.head and node.log.log_start < 3:
                node.log.trim(Offset(3))

        node.store.watch = watch
        await node.produce_sealed(b"b", b"c", b"d")
        await seconds(10)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset) == (3, 4)

    play_node(scenario)


def test_a_log_that_was_trimmed_before_its_first_upload_begins_there() -> None:
    async def scenario(node: TierNode) -> None:
        node.store.is_closed = True
        await node.open()
        await node.produce_sealed(b"a", b"b")
        node.log.trim(Offset(1))
        node.store.is_closed = False
        await seconds(120)
        head = head_in(bucket_of(node))
        assert (head.log_start, head.next_offset) == (1, 2)
        assert [entry.base for entry in head.entries] == [0]

    play_node(scenario)


def test_large_objects_are_sent_in_parts() -> None:
    async def scenario(node: TierNode) -> None:
        node.settings = replace(node.settings, single_put_bytes_max=1000, part_bytes=5 << 20)
        node.logs = replace(node.logs, segment_bytes=20 << 20)
        await node.open()
        values = [bytes([number]) * 900_000 for number in range(12)]
        await node.produce_sealed(*values)
        parts = 0

        def watch(kind: str, key: str) -> None:
            nonlocal parts
            parts += kind == "put_part"

        node.store.watch = watch
        await seconds(5)
        bucket = bucket_of(node)
        assert head_in(bucket).next_offset == 12, node.partition.status.last_error
        assert (cold_values(bucket), parts) == (values, 3)
        assert not bucket.shelf.list_uploads("")

    play_node(scenario)


def test_a_head_that_the_store_lost_is_put_back() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await seconds(2)
        bucket = bucket_of(node)
        del bucket.shelf.items[KEYS.head]
        await node.produce_sealed(b"b")
        await seconds(10)
        assert cold_values(bucket) == [b"a", b"b"]

    play_node(scenario)


def test_a_segment_that_is_trimmed_while_it_is_uploaded_does_no_harm() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        for number in range(30):
            await node.produce_sealed(b"x" * 50)
            if number % 3 == 0:
                node.log.trim(node.log.visible_end)
            await seconds(0.01 * number)
        await node.produce_sealed(b"last")
        await seconds(60)
        head = head_in(bucket_of(node))
        assert (head.next_offset, node.partition.status.last_error) == (31, None)

    for seed in range(5):
        play_node(scenario, seed)


def test_a_turn_ends_with_its_publish() -> None:
    async def scenario(node: TierNode) -> None:
        node.store.is_closed = True
        node.settings = replace(node.settings, commit_segments_max=3)
        await node.open()
        for _ in range(7):
            await node.produce_sealed(b"x")
        node.store.is_closed = False
        await node.tier.membership.keeper.join()
        await node.partition.uploader.upload()
        assert node.prefix.uploaded_end == 3

    play_node(scenario)
