"""Small cold segments become larger objects: the same records, fewer requests."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest

from tests.cold.tiering import (
    KEYS,
    NODE,
    SETTINGS,
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
from tests.hot.support import append, batch
from tierlog.cold import chain, shedding, sources
from tierlog.cold.audit import Subject
from tierlog.cold.audit_object import ObjectAudit
from tierlog.cold.changes import Append, MoveLogStart, Replace
from tierlog.cold.codec import open_page
from tierlog.cold.entry import Entry
from tierlog.cold.head import MERGE, Head, PageRef
from tierlog.cold.layout import PAGES
from tierlog.cold.merger import Merger
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.cold.rebuild import rebuild
from tierlog.cold.receipt import decode_receipt
from tierlog.cold.segment_object import SOURCES, parse_tail
from tierlog.cold.tree import Limits
from tierlog.cold.walk import Walk
from tierlog.hot import smallfile
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.sim.storefaults import Fate, Then, When
from tierlog.types import Offset

BY_HAND = replace(SETTINGS, check_interval_ms=10**9, merge_interval_ms=10**9)
"""Nothing happens unless a test does it."""
SMALL_PAGES = Limits(entries_inline=4, leaf_entries=6, leaves_inline=2, index_leaves=4)


@contextmanager
def small_pages() -> Iterator[None]:
    with (
        patch("tierlog.cold.uploader.Append", partial(Append, limits=SMALL_PAGES)),
        patch("tierlog.cold.merger.Replace", partial(Replace, limits=SMALL_PAGES)),
    ):
        yield


async def slow_topic(node: TierNode, segments: int = 8) -> SimBucket:
    """A node whose log has so many tiny segments, cold and dropped; tests merge by hand."""
    node.settings = BY_HAND
    node.logs = replace(node.logs, segment_bytes=1 << 20)
    node.tiering = eager(node.tiering)
    await node.open()
    await add(node, segments)
    return bucket_of(node)


async def add(node: TierNode, segments: int) -> None:
    for _ in range(segments):
        end = node.log.log_end
        await node.produce_sealed(b"%d" % end, b"more of %d" % end)
    while node.log.log_start < node.log.log_end:
        await node.partition.work()
    await node.log.settle()


def merger_of(node: TierNode) -> Merger:
    (merger,) = (one for one in node.partition.chores if isinstance(one, Merger))
    return merger


async def merge(node: TierNode) -> None:
    await merger_of(node).run()


def entries_of(bucket: SimBucket, head: Head) -> list[Entry]:
    """All that are listed, through all pages."""
    leaves: list[PageRef] = []
    for ref in head.indexes:
        page = open_page(ref, bucket.shelf.items[KEYS.full(ref.key)].data)
        assert isinstance(page, IndexPage)
        leaves += page.leaves
    found: list[Entry] = []
    for ref in (*leaves, *head.leaves):
        page = open_page(ref, bucket.shelf.items[KEYS.full(ref.key)].data)
        assert isinstance(page, LeafPage)
        found += page.entries
    return [*found, *head.entries]


def records_of(bucket: SimBucket) -> bytes:
    """Every batch that is listed, in order."""
    return b"".join(data_of(bucket, one) for one in entries_of(bucket, head_in(bucket)))


def test_a_run_of_small_segments_becomes_one_object() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        before, data = head_in(bucket), records_of(bucket)
        await merge(node)
        head = head_in(bucket)
        (entry,) = head.entries
        assert (entry.base, entry.next_offset) == (0, head.next_offset)
        assert (head.records, head.next_offset) == (before.records, before.next_offset)
        assert (head.log_start, head.bytes) == (0, entry.size)
        assert records_of(bucket) == data
        stats = node.tier.stats
        assert (stats.merged_segments, stats.merged_objects) == (8, 1)
        assert stats.merged_bytes == entry.size

    play_node(scenario)


def test_the_old_objects_stay_for_the_time_of_grace() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        before, now_ms = head_in(bucket), node.env.clock.now_ms()
        await merge(node)
        garbage = head_in(bucket).garbage
        assert {one.key for one in garbage} == {one.key for one in before.entries}
        grace_ms = node.settings.garbage_grace_ms
        assert all(one.not_before_ms >= now_ms + grace_ms for one in garbage)
        assert all(KEYS.full(one.key) in bucket.shelf.items for one in garbage)
        assert not bucket.deleted

    play_node(scenario)


def test_they_go_once_it_is_over_with_a_receipt_that_says_why() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        before, data = head_in(bucket), records_of(bucket)
        await merge(node)
        merger = merger_of(node)
        others = [one for one in node.partition.chores if one is not merger]
        await asyncio.sleep(2 * node.settings.garbage_grace_ms / 1000)
        for _ in range(3):
            for chore in others:
                await chore.run()
        assert {one.removeprefix(KEYS.prefix) for one in bucket.deleted} == {
            one.key for one in before.entries
        }
        assert not head_in(bucket).garbage
        assert records_of(bucket) == data
        (key,) = (one for one in bucket.shelf.items if one.startswith(KEYS.full("receipt/")))
        receipt = decode_receipt(bucket.shelf.items[key].data, key=key)
        assert {one.why for one in receipt.objects} == {MERGE}

    play_node(scenario)


def test_the_merged_object_describes_itself() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        before = head_in(bucket).entries
        await merge(node)
        (entry,) = head_in(bucket).entries
        data = bucket.shelf.items[KEYS.full(entry.key)].data
        footer = parse_tail(data, object_size=len(data), key=entry.key)
        assert (footer.base, footer.last) == (entry.base, entry.last)
        last = bucket.shelf.items[KEYS.full(before[-1].key)].data
        producers = parse_tail(last, object_size=len(last), key="last").section("producers")
        assert footer.section("producers")[2:] == producers[2:]  # type: ignore[index]
        assert footer.section(SOURCES) is not None
        assert await sources.read(node.store, KEYS, entry) == before
        rebuilt = await rebuild(node.store, KEYS)
        assert not rebuilt.problems
        assert [one.key for one in rebuilt.entries] == [entry.key]

    play_node(scenario)


def test_an_audit_that_reads_a_merged_object_finds_it_sound() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        await merge(node)
        (entry,) = head_in(bucket).entries
        place = node.partition.place
        subject = Subject(place.topic, place.topic_id, place.partition)
        key = KEYS.full(entry.key)
        audit = partial(ObjectAudit, node.store, key, subject=subject, tasks=node.env.tasks)
        assert await audit(entry=entry).run() is None
        assert entry.replaces is not None
        wrong = entry.replaces._replace(before="00" * 32)
        fault = await audit(entry=replace(entry, replaces=wrong)).run()
        assert fault is not None

    play_node(scenario)


def test_a_merge_of_merges_remembers_the_first_uploads() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node, 0)
        uploads: list[Entry] = []
        for _ in range(5):
            await add(node, 8)
            uploads += head_in(bucket).entries[-8:]
            data = records_of(bucket)
            await merge(node)
            assert records_of(bucket) == data
        head = head_in(bucket)
        entry = head.entries[0]
        assert entry.replaces is not None
        assert entry.replaces.segments > 8, "of merged ones"
        of_it = tuple(uploads[: entry.replaces.segments])
        assert await sources.read(node.store, KEYS, entry) == of_it
        assert chain.check(head.chain_anchor, of_it, key="all") == entry.chain
        walk = Walk(node.store, KEYS, head)
        await walk.run()
        assert not walk.problems

    play_node(scenario)


def test_runs_in_leaf_pages_and_below_index_pages_are_merged() -> None:
    async def scenario(node: TierNode) -> None:
        with small_pages():
            # A page of the worst case: nothing was merged while it was filled.
            bucket = await slow_topic(node, 60)
            before = head_in(bucket)
            assert before.indexes
            assert before.leaves
            data, count = records_of(bucket), len(entries_of(bucket, before))
            for _ in range(20):
                await merge(node)
            head = head_in(bucket)
            entries = entries_of(bucket, head)
            assert records_of(bucket) == data
            assert len(entries) <= count // 4
            assert chain.check(head.chain_anchor, entries, key="all") == entries[-1].chain
            assert (head.records, head.bytes) == (before.records, sum(one.size for one in entries))
            pages = {one.key for one in head.garbage if one.key.startswith(PAGES)}
            assert {one.key for one in (*before.indexes, *before.leaves)} & pages
            walk = Walk(node.store, KEYS, head)
            await walk.run()
            assert not walk.problems
            await add(node, 20)
            assert records_of(bucket).startswith(data)

    play_node(scenario)


def test_head_never_names_more_garbage_than_it_has_room_for() -> None:
    async def scenario(node: TierNode) -> None:
        room = 40
        bucket = await slow_topic(node, 80)
        with patch("tierlog.cold.merger.GARBAGE_SEGMENTS_MAX", room):
            for _ in range(20):
                await merge(node)
        head = head_in(bucket)
        garbage = [one for one in head.garbage if not one.key.startswith(PAGES)]
        assert room - 8 < len(garbage) <= room

    play_node(scenario)


def test_a_partition_that_merges_all_the_time_still_lets_go_of_what_expired() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node, 30)
        with (
            patch("tierlog.cold.merger.GARBAGE_SEGMENTS_MAX", 24),
            patch("tierlog.cold.shedding.GARBAGE_SEGMENTS_MAX", 12),
        ):
            for _ in range(20):
                await merge(node)
            before = head_in(bucket)
            assert shedding.garbage_segments(before, merged=True) > 12, "more than may expire"
            await node.partition.uploader.publisher.commit(MoveLogStart(before.entries[-1].base))
            for _ in range(8):
                await node.partition.expirer.run()
            head = head_in(bucket)
            assert shedding.garbage_segments(head, merged=False) > 0
            assert shedding.shed_from(head) == head.log_start, "all that expired is garbage"

    play_node(scenario)


# When


def test_it_merges_by_itself_once_the_segments_left_the_disk() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def live() -> None:
            node = TierNode(world.env(NODE), bucket)
            node.settings = replace(node.settings, merge_interval_ms=1000)
            node.tiering = eager(node.tiering)
            await node.open()
            for number in range(10):
                await node.produce_sealed(b"%d" % number)
            await asyncio.sleep(20)
            head = head_in(bucket)
            assert [one.replaces is not None for one in head.entries] == [True]
            assert merger_of(node).due_from_ms == float("inf"), "nothing is left to do"

        await world.start(NODE, live(), what="live")

    play(scenario)


def test_what_is_on_the_local_disk_is_not_merged() -> None:
    async def scenario(node: TierNode) -> None:
        node.settings = BY_HAND
        await node.open()
        for number in range(10):
            await node.produce_sealed(b"%d" % number)
        while node.partition.uploader.has_work():
            await node.partition.work()
        await merge(node)
        assert len(head_in(bucket_of(node)).entries) == 10

    play_node(scenario)


def test_nothing_is_merged_while_an_upload_waits() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        await node.produce_sealed(b"one that waits")
        asked: list[str] = []
        node.store.watch = lambda kind, _: asked.append(kind)
        await merge(node)
        assert not asked
        assert len(head_in(bucket).entries) == 8

    play_node(scenario)


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_partition_that_cannot_be_uploaded_does_not_keep_others_from_it(is_fenced: bool) -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        stuck = await second_partition(node)
        append(stuck.log, batch(b"waits"))
        stuck.log.roll()
        await stuck.log.settle()
        stuck.look(node.env.clock.now_ms())
        assert stuck.status.backlog_segments == 1
        await merge(node)
        assert len(head_in(bucket).entries) == 8, "it has its turn first"
        stuck.is_fenced = is_fenced
        if not is_fenced:
            stuck.failed(OSError("its disk"), is_own=True)
        await merge(node)
        assert len(head_in(bucket).entries) == 1

    play_node(scenario)


def test_nothing_is_merged_where_the_topic_copies_nothing_or_the_node_says_so() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        merger_of(node).reconfigure(replace(node.tiering, copies=False))
        await merge(node)
        assert len(head_in(bucket).entries) == 8
        merger = merger_of(node)
        merger.reconfigure(node.tiering)
        merger._settings = replace(node.settings, merge_bytes_max=0)
        await merge(node)
        assert len(head_in(bucket).entries) == 8

    play_node(scenario)


# What goes wrong


@pytest.mark.parametrize("spoils", ["missing", "damaged"])
def test_a_source_that_is_not_what_was_published_is_left_alone(spoils: str) -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node, 20)
        entries = head_in(bucket).entries
        key = KEYS.full(entries[3].key)
        if spoils == "missing":
            del bucket.shelf.items[key]
        else:
            item = bucket.shelf.items[key]
            bucket.shelf.items[key] = replace(item, data=item.data[:-40] + b"?" + item.data[-39:])
        await merge(node)
        await merge(node)
        head = head_in(bucket)
        assert node.tier.stats.merge_refusals == 1
        assert [one.key for one in head.entries[:4]] == [one.key for one in entries[:4]]
        assert head.entries[4].replaces is not None
        assert head.entries[4].replaces.segments == 16

    play_node(scenario)


def test_a_merge_is_given_up_where_the_run_was_deleted_meanwhile() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        publisher, commit = (
            node.partition.uploader.publisher,
            node.partition.uploader.publisher.commit,
        )

        async def delete_first(change: object) -> Head:
            if isinstance(change, Replace):
                await commit(MoveLogStart(Offset(5)))
            return await commit(change)  # type: ignore[arg-type]  # a change

        with patch.object(publisher, "commit", delete_first):
            await merge(node)
        head = head_in(bucket)
        assert (head.log_start, len(head.entries)) == (5, 8)
        assert node.tier.stats.merge_refusals == 1
        await merge(node)
        assert len(head_in(bucket).entries) == 8, "five are left, too few for a run"

    play_node(scenario)


@pytest.mark.parametrize("when", list(When))
def test_a_commit_without_an_answer_is_found_or_repeated(when: When) -> None:
    """The object is not sent again, and nothing is listed twice."""

    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        data = records_of(bucket)
        shots = iter([Fate(when, Then.ERROR, late_seconds=0.0)])
        bucket.on_call = lambda call: next(shots, None) if call.kind == "put_if_match" else None
        try:
            await merge(node)
        except StoreUnavailable:
            await merge(node)
        head = head_in(bucket)
        assert len(head.entries) == 1
        assert records_of(bucket) == data
        objects = [one for one in bucket.shelf.items if "/seg/" in one]
        assert len(objects) == 9, "eight and the one they were merged into"

    play_node(scenario)


def test_a_merge_that_did_not_come_to_its_end_leaves_no_file() -> None:
    async def scenario(node: TierNode) -> None:
        await slow_topic(node)
        node.store.watch = lambda kind, _: setattr(node.store, "is_closed", kind == "put_if_absent")
        with pytest.raises(StoreUnavailable):
            await merge(node)
        assert not [one for one in node.env.disk.listdir("/data/cold") if one.endswith(".merge")]

    play_node(scenario)


def test_the_file_of_a_merge_that_died_is_removed_by_the_next_start() -> None:
    async def scenario(node: TierNode) -> None:
        disk, folder = node.env.disk, "/data/cold"
        smallfile.make_directory(disk, folder)
        smallfile.write_all(disk, f"{folder}/{TOPIC_ID}-0.merge", b"half of it")
        await node.open()
        assert not [one for one in disk.listdir(folder) if one.endswith(".merge")]

    play_node(scenario)


def test_a_merge_takes_no_more_than_a_part_of_the_free_disk() -> None:
    async def scenario(node: TierNode) -> None:
        bucket = await slow_topic(node)
        size = sum(one.data_bytes for one in head_in(bucket).entries)
        with patch.object(type(node.env.disk), "free_bytes", lambda *_: 4 * size - 1):
            await merge(node)
        assert len(head_in(bucket).entries) == 8
        with patch.object(type(node.env.disk), "free_bytes", lambda *_: 4 * size):
            await merge(node)
        assert len(head_in(bucket).entries) == 1

    play_node(scenario)


# Others who look at merged segments


def test_a_local_segment_that_came_back_is_compared_with_what_was_merged() -> None:
    """A copy of the disk from before the drop: the bucket has one object where the log has many."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            node = TierNode(world.env(NODE), bucket)
            node.settings = BY_HAND
            await node.open()
            for number in range(8):
                await node.produce_sealed(b"%d" % number)
            await node.partition.work()
            await node.log.settle()
            disk = world.disk(NODE).snapshot()
            disk.kill()
            world.host("copy").disk = disk
            node.partition.reconfigure(TOPIC, eager(node.tiering))
            await node.partition.work()
            await node.log.settle()
            await merge(node)
            assert len(head_in(bucket).entries) == 1

        async def second() -> None:
            node = TierNode(world.env("copy"), bucket, leader_epoch=2)
            node.settings = BY_HAND
            node.tiering = eager(node.tiering)
            await node.open()
            assert node.log.log_start == 0
            await node.partition.work()
            assert node.log.log_start == node.log.log_end
            assert node.tier.stats.dropped_segments == 8

        await world.start(NODE, first(), what="live")
        world.kill(NODE)
        await world.start("copy", second(), what="live on")

    play(scenario)
