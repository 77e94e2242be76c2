"""Objects that no manifest knows: told, seen again, collected; and never one that may yet count."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any
from unittest.mock import PropertyMock, patch

from tests.cold.tiering import (
    CLUSTER,
    KEYS,
    LIFE,
    NODE,
    SETTINGS,
    TOPIC,
    TOPIC_ID,
    TierNode,
    bucket_of,
    head_in,
    play,
    play_node,
)
from tierlog.cold.head import Writer
from tierlog.cold.layout import cluster_prefix, topic_receipt_key
from tierlog.cold.publisher import Publisher
from tierlog.cold.uploader import PartitionUploader
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.types import LeaderEpoch, Offset

PREFIX = cluster_prefix("", CLUSTER)
WEEK_S = 70.0
QUICK = replace(
    SETTINGS,
    orphan_interval_ms=int(WEEK_S * 1000),
    orphan_age_ms=10_000,
    orphan_sighting_ms=int(WEEK_S * 1000),
    upload_age_ms=10_000,
)
"""A week of a minute, a day of ten seconds."""


def play_quick(scenario: Callable[[TierNode], Coroutine[Any, Any, None]]) -> None:
    async def run(node: TierNode) -> None:
        node.settings = QUICK
        await node.open()
        await node.produce_sealed(b"a" * 100)
        await node.produce_sealed(b"b" * 100)
        await asyncio.sleep(5)
        assert head_in(bucket_of(node)).next_offset == 2
        await scenario(node)

    play_node(run)


def segment(*, base: int = 0, epoch: int = 1, attempt: int = 77) -> str:
    return KEYS.segment(
        base=Offset(base),
        last=Offset(base + 9),
        leader_epoch=LeaderEpoch(epoch),
        node=7,
        attempt=attempt,
    )


async def plant(node: TierNode, key: str, data: bytes = b"orphan") -> str:
    await node.store.put(key, BytesBody(data))
    return key


def is_there(node: TierNode, key: str) -> bool:
    return key in bucket_of(node).shelf.items


def seen_of(node: TierNode) -> tuple[int, int]:
    return node.tier.stats.orphan_objects, node.tier.stats.orphan_bytes


def test_an_orphan_is_told_first_and_collected_when_it_is_seen_again() -> None:
    async def scenario(node: TierNode) -> None:
        known = set(bucket_of(node).shelf.items)
        orphans = [
            await plant(node, segment(epoch=0)),
            await plant(node, segment(epoch=1)),
            await plant(node, segment(base=500, epoch=1)),
            await plant(node, KEYS.page(first=Offset(0), attempt=77)),
        ]
        await asyncio.sleep(WEEK_S + 15)
        assert seen_of(node) == (4, 24)
        assert all(is_there(node, one) for one in orphans)
        await asyncio.sleep(2 * WEEK_S)
        assert set(bucket_of(node).shelf.items) == known
        assert (node.tier.stats.collected_orphans, node.tier.stats.collected_orphan_bytes) == (
            4,
            24,
        )
        await asyncio.sleep(WEEK_S)
        assert seen_of(node) == (0, 0)
        assert not node.env.disk.listdir("/data/cold/orphans")

    play_quick(scenario)


def test_a_young_object_is_no_orphan() -> None:
    async def scenario(node: TierNode) -> None:
        finder = node.tier.orphans
        await plant(node, segment(epoch=0))
        await finder._look((TOPIC_ID, 0), node.partition)
        assert seen_of(node) == (0, 0)
        await asyncio.sleep(11)
        await finder._look((TOPIC_ID, 0), node.partition)
        assert seen_of(node) == (1, 6)

    play_quick(scenario)


def test_what_is_called_like_nothing_of_ours_is_left_alone() -> None:
    async def scenario(node: TierNode) -> None:
        strange = [
            await plant(node, KEYS.prefix + name)
            for name in ("TABLE", "pq/file.parquet", "chk/1", "seg/notes.txt", "future/1")
        ]
        await asyncio.sleep(4 * WEEK_S)
        assert seen_of(node) == (0, 0)
        assert all(is_there(node, one) for one in strange)

    play_quick(scenario)


def test_orphans_of_a_compliance_topic_are_told_and_stay() -> None:
    async def scenario(node: TierNode) -> None:
        strict = replace(TOPIC, configs={"tierlog.compliance": "true"})
        node.tier.reconfigure(TOPIC_ID, strict, node.tiering)
        orphan = await plant(node, segment(epoch=0))
        await asyncio.sleep(4 * WEEK_S)
        assert seen_of(node) == (1, 6)
        assert is_there(node, orphan)

    play_quick(scenario)


def test_a_newer_leaders_upload_is_not_ours_to_collect() -> None:
    async def scenario(node: TierNode) -> None:
        theirs = await plant(node, segment(epoch=9))
        await asyncio.sleep(4 * WEEK_S)
        assert seen_of(node) == (1, 6)
        assert is_there(node, theirs)

    play_quick(scenario)


async def sent_and_not_published(node: TierNode) -> str:
    """A segment that is in the bucket, while HEAD cannot be replaced."""

    def refuse(kind: str, key: str) -> None:
        if kind == "put_if_match" and key == KEYS.head:
            raise StoreUnavailable("HEAD cannot be replaced")

    node.store.watch = refuse
    await node.produce_sealed(b"c" * 100)
    while not node.partition.uploader.in_flight:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.1)
    (key,) = node.partition.uploader.in_flight
    return KEYS.full(key)


async def look_for_weeks(node: TierNode) -> None:
    for _ in range(4):
        await asyncio.sleep(WEEK_S)
        while node.partition.task is not None:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.1)
        await node.tier.orphans._look((TOPIC_ID, 0), node.partition)


async def publish_in_the_end(node: TierNode) -> None:
    node.store.watch = lambda _kind, _key: None
    await asyncio.sleep(200)
    assert head_in(bucket_of(node)).next_offset == 3


def test_an_upload_in_flight_is_kept_however_long_its_publish_takes() -> None:
    async def scenario(node: TierNode) -> None:
        key = await sent_and_not_published(node)
        await look_for_weeks(node)
        assert is_there(node, key)
        await publish_in_the_end(node)
        assert is_there(node, key)

    play_quick(scenario)


def test_without_the_note_of_what_is_in_flight_it_would_be_lost() -> None:
    """The planted bug: what keeps the test above from passing by chance."""

    async def scenario(node: TierNode) -> None:
        key = await sent_and_not_published(node)
        nothing = PropertyMock(return_value=frozenset())
        with patch.object(PartitionUploader, "in_flight", nothing):
            await look_for_weeks(node)
        assert not is_there(node, key)

    play_quick(scenario)


def test_a_restart_remembers_what_was_seen_and_a_lost_file_means_seen_for_the_first_time() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        orphan = segment(epoch=0)

        async def look(epoch: int, wait_s: float) -> int:
            node = TierNode(world.env(NODE), bucket, leader_epoch=epoch)
            node.settings = replace(QUICK, orphan_interval_ms=10**12)
            await node.open()
            await node.produce_sealed(b"a" * 100)
            await asyncio.sleep(wait_s)
            await node.tier.orphans._look((TOPIC_ID, 0), node.partition)
            await node.tier.stop()
            return node.tier.stats.collected_orphans

        async def live(epoch: int, wait_s: float = 15.0) -> int:
            found = await world.start(NODE, look(epoch, wait_s), what="look")
            world.kill(NODE)
            return found

        bucket.shelf.put(orphan, b"orphan", now_ms=0)
        assert await live(1) == 0
        assert world.disk(NODE).listdir("/data/cold/orphans") == [f"{TOPIC_ID}-0.json"]
        world.disk(NODE).unlink(f"/data/cold/orphans/{TOPIC_ID}-0.json")
        await asyncio.sleep(WEEK_S)
        assert await live(2) == 0, "seen for the first time"
        await asyncio.sleep(WEEK_S)
        assert await live(3) == 1
        assert orphan not in bucket.shelf.items

    play(scenario)


def test_a_partition_that_is_fenced_collects_nothing() -> None:
    async def scenario(node: TierNode) -> None:
        orphan = await plant(node, segment(epoch=0))
        await asyncio.sleep(WEEK_S + 15)
        assert seen_of(node) == (1, 6)
        successor = Publisher(
            node.store,
            KEYS,
            node.env,
            place=node.partition.place,
            writer=Writer(LeaderEpoch(5), "another"),
            incarnation=LIFE,
        )
        await successor.claim()
        await asyncio.sleep(3 * WEEK_S)
        assert is_there(node, orphan)

    play_quick(scenario)


def test_a_topic_that_state_does_not_know_is_told_and_left_alone() -> None:
    async def scenario(node: TierNode) -> None:
        stranger = "f" * 32
        key = await plant(node, f"{PREFIX}t/{stranger}/0/seg/x")
        await asyncio.sleep(4 * WEEK_S)
        assert node.tier.orphans.unknown == (stranger,)
        assert is_there(node, key)

    play_quick(scenario)


def test_what_lands_below_a_topic_that_was_swept_is_swept_again() -> None:
    async def scenario(node: TierNode) -> None:
        gone = "f" * 32
        await plant(node, PREFIX + topic_receipt_key(gone), b"a receipt")
        late = await plant(node, f"{PREFIX}t/{gone}/0/seg/x")
        await asyncio.sleep(2 * WEEK_S)
        state = node.tier.membership.keeper.state
        assert state is not None
        assert list(state.deleted) == [gone]
        assert is_there(node, late), "there is a grace again"
        await asyncio.sleep(600)
        assert not is_there(node, late)
        assert not node.tier.sweeper.waiting
        assert node.tier.orphans.unknown == ()

    async def with_short_grace(node: TierNode) -> None:
        node.settings = replace(QUICK, garbage_grace_ms=300_000)
        await node.open()
        await asyncio.sleep(5)
        await scenario(node)

    play_node(with_short_grace)


def test_an_upload_that_was_left_behind_is_aborted_after_a_day_by_both_clocks() -> None:
    async def scenario(node: TierNode) -> None:
        finder, uploads = node.tier.orphans, bucket_of(node).shelf.uploads
        bucket_of(node).shelf.begin_upload(segment(attempt=5), now_ms=0)
        await node.store.begin_upload(segment(attempt=6))
        await finder._abort_uploads()
        assert len(uploads) == 2, "one is old by the store's clock alone"
        await asyncio.sleep(9)
        await finder._abort_uploads()
        assert len(uploads) == 2
        await asyncio.sleep(2)
        await finder._abort_uploads()
        assert not uploads
        assert node.tier.stats.aborted_uploads == 2

    play_quick(scenario)
