"""Collection in two steps (U7): what is asked again before anything is deleted, in which order it
goes, and what a receipt says."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.cold.test_expirer import commit, on_hold
from tests.cold.tiering import (
    KEYS,
    NODE,
    TIERING,
    TierNode,
    bucket_of,
    head_in,
    play,
    play_node,
)
from tierlog.cold.changes import Append
from tierlog.cold.collector import ABSENT_MS, REFUSED_MS, PartitionCollector
from tierlog.cold.head import DELETE_RECORDS, RETENTION_MS, Head, Policy
from tierlog.cold.layout import RECEIPTS
from tierlog.cold.receipt import Receipt, decode_receipt
from tierlog.cold.tiersettings import TierSettings
from tierlog.cold.tree import Limits
from tierlog.objectstore.errors import StoreDenied
from tierlog.objectstore.port import DeleteFailed, Doomed
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.types import Offset

GRACE_S = 240
SETTINGS = TierSettings(check_interval_ms=100, garbage_grace_ms=GRACE_S * 1000)
SHORT = replace(TIERING, retention_ms=1000)


async def seconds(count: float) -> None:
    await asyncio.sleep(count)


def under(bucket: SimBucket, folder: str) -> list[str]:
    prefix = KEYS.full(folder)
    return sorted(key for key in bucket.shelf.items if key.startswith(prefix))


def receipts(bucket: SimBucket) -> list[Receipt]:
    return [
        decode_receipt(bucket.shelf.items[key].data, key=key) for key in under(bucket, RECEIPTS)
    ]


async def expired(node: TierNode, *, segments: int = 2) -> None:
    """A node whose segments are garbage, some seconds old."""
    node.settings = SETTINGS
    node.tiering = SHORT
    await node.open()
    for number in range(segments):
        await node.produce_sealed(b"%d" % number)
    await seconds(5)
    assert head_in(bucket_of(node)).log_start == segments


def test_objects_go_after_their_grace_with_a_receipt() -> None:
    async def scenario(node: TierNode) -> None:
        await expired(node)
        bucket = bucket_of(node)
        entries = under(bucket, "seg/")
        garbage = head_in(bucket).garbage
        await seconds(GRACE_S - 6)
        assert under(bucket, "seg/") == entries, "readers of an older manifest may want them"
        await seconds(GRACE_S / 24 + 3)
        assert under(bucket, "seg/") == []
        head = head_in(bucket)
        assert head.garbage == ()
        told = receipts(bucket)
        assert [one.key for receipt in told for one in receipt.objects] == [
            one.key for one in garbage
        ]
        for receipt in told:
            assert {one.why for one in receipt.objects} == {RETENTION_MS}
            assert (receipt.log_start, receipt.policy_version) == (2, 0)
            assert receipt.chain_anchor == head.chain_anchor
            assert receipt.deleted_ms >= receipt.objects[0].not_before_ms
            assert all(len(one.sha256) == 64 and one.size > 0 for one in receipt.objects)
        assert node.tier.stats.collected_objects == 2

    play_node(scenario)


def test_a_key_of_a_receipt_says_what_it_tells_of() -> None:
    async def scenario(node: TierNode) -> None:
        await expired(node)
        await seconds(GRACE_S + 60)
        for key in under(bucket_of(node), RECEIPTS):
            receipt = decode_receipt(bucket_of(node).shelf.items[key].data, key=key)
            assert KEYS.full(receipt.key) == key
            first, last = receipt.objects[0].base, receipt.objects[-1].last
            assert receipt.key.startswith(f"{RECEIPTS}{first:020d}-{last:020d}-")

    play_node(scenario)


def test_pages_go_with_the_segments_that_they_list() -> None:
    async def scenario(node: TierNode) -> None:
        limits = Limits(entries_inline=2, leaf_entries=2, leaves_inline=1, index_leaves=2)
        with patch.dict(Append.__init__.__kwdefaults__, limits=limits):
            node.settings = SETTINGS
            await node.open()
            for number in range(9):
                await node.produce_sealed(b"%d" % number)
                await seconds(1)
            bucket = bucket_of(node)
            assert head_in(bucket).indexes
            objects = under(bucket, "seg/")
            node.log.trim(Offset(8))
            await seconds(3)
            head = head_in(bucket)
            assert any(one.segments_from >= 0 for one in head.garbage)
            await seconds(GRACE_S + 60)
            head = head_in(bucket)
            assert (head.garbage, head.indexes, len(under(bucket, "seg/"))) == ((), (), 1)
            kept = [KEYS.full(one.key) for one in head.leaves]
            assert under(bucket, "page/") == kept
            told = [KEYS.full(one.key) for receipt in receipts(bucket) for one in receipt.objects]
            assert sorted(told) == [key for key in objects if key not in under(bucket, "seg/")]
            assert {one.why for one in receipts(bucket)[0].objects} == {DELETE_RECORDS}

    play_node(scenario)


def test_what_a_hold_covers_stays_until_it_is_lifted() -> None:
    async def scenario(node: TierNode) -> None:
        await expired(node)
        bucket = bucket_of(node)
        # Nobody can put one below the log start yet; whoever can, finds the objects kept.
        await commit(node, on_hold(0, 1))
        await seconds(GRACE_S + 60)
        assert [key[-70:] for key in under(bucket, "seg/")] == [
            key[-70:] for key in under(bucket, "seg/") if "/seg/" + "0" * 20 in key
        ]
        assert len(under(bucket, "seg/")) == 1
        await commit(
            node, lambda head: replace(head, holds=(), policy_version=head.policy_version + 1)
        )
        await seconds(60)
        assert under(bucket, "seg/") == []

    play_node(scenario)


def test_nothing_is_deleted_while_head_does_not_name_the_topics_policy() -> None:
    async def scenario(node: TierNode) -> None:
        await expired(node)
        bucket = bucket_of(node)
        asked = 0

        async def changed() -> Policy:
            nonlocal asked
            asked += 1
            assert under(bucket, "seg/"), "it is asked before anything goes"
            return Policy(retention_ms=77)

        for chore in node.partition.chores:
            chore._policy_of = changed  # type: ignore[attr-defined]  # either has it
        await seconds(GRACE_S + 20)
        assert asked
        head = head_in(bucket)
        assert (head.policy, head.policy_version) == (Policy(retention_ms=77), 1)
        assert under(bucket, "seg/") == [], "and then they may go"
        assert receipts(bucket)[0].policy_version == 1
        assert receipts(bucket)[0].objects[0].policy_version == 0

    play_node(scenario)


def test_objects_of_a_topic_that_is_gone_are_left_to_the_sweep() -> None:
    async def scenario(node: TierNode) -> None:
        await expired(node)

        async def gone() -> None:
            return None

        for chore in node.partition.chores:
            chore._policy_of = gone  # type: ignore[attr-defined]  # either has it
        await seconds(2 * GRACE_S)
        assert len(under(bucket_of(node), "seg/")) == 2

    play_node(scenario)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_store_that_refuses_deletions_still_takes_uploads(
    is_whole: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(node: TierNode) -> None:
        await expired(node)
        bucket, asked = bucket_of(node), 0

        async def refuse(doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
            nonlocal asked
            asked += 1
            if is_whole:
                raise StoreDenied("AccessDenied")
            return [DeleteFailed(one.key, "AccessDenied") for one in doomed]

        with patch.object(node.store, "delete", refuse):
            await seconds(GRACE_S + 20)
            for _ in range(20):
                end = node.log.log_end
                await node.produce_sealed(b"x")
                await seconds(2)
                assert node.prefix.uploaded_end == end + 1
            status = node.partition.status
            assert (status.last_error, node.tier.last_error) == (None, None)
            assert status.garbage_error is not None
            assert "AccessDenied" in status.garbage_error
            await seconds(4 * GRACE_S)
        assert len(receipts(bucket)) == 0
        assert asked < 10
        assert sum("garbage stays" in one.message for one in caplog.records) == 1
        await seconds(REFUSED_MS / 1000 + GRACE_S)
        assert under(bucket, "seg/") == []
        assert node.partition.status.garbage_error is None

    play_node(scenario)


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_page_that_is_not_there_is_believed_to_be_gone_when_it_is_so_again(is_gone: bool) -> None:
    async def scenario(node: TierNode) -> None:
        limits = Limits(entries_inline=2, leaf_entries=2, leaves_inline=1, index_leaves=2)
        with patch.dict(Append.__init__.__kwdefaults__, limits=limits):
            node.settings = SETTINGS
            await node.open()
            for number in range(9):
                await node.produce_sealed(b"%d" % number)
                await seconds(1)
            bucket = bucket_of(node)
            node.log.trim(Offset(8))
            await seconds(3)
            pages = [one.key for one in head_in(bucket).garbage if one.segments_from >= 0]
            assert len(pages) > 2, "which are waited for together, not one after the other"
            hidden = {KEYS.full(key): bucket.shelf.items.pop(KEYS.full(key)) for key in pages}
            objects = under(bucket, "seg/")
            await seconds(GRACE_S + 11)
            assert under(bucket, "seg/") == objects, "a moment's absence is no proof"
            if not is_gone:
                bucket.shelf.items.update(hidden)
            await seconds(ABSENT_MS / 1000 + 5)
            assert head_in(bucket).garbage == ()
            assert (len(under(bucket, "seg/")) == 1) == (not is_gone)

    play_node(scenario)


def test_a_successor_is_met_before_anything_is_deleted() -> None:
    """The zombie has the garbage in its HEAD and the time has come; another leads now."""

    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def live() -> TierNode:
            node = TierNode(world.env(NODE), bucket)
            await expired(node)
            return node

        zombie = await world.start(NODE, live(), what="live")
        other = TierNode(world.env("other"), bucket, leader_epoch=2)
        other.settings, other.tiering = SETTINGS, SHORT

        async def lead() -> None:
            await other.open()
            await other.produce_sealed(b"x", b"y", b"z")
            await seconds(3)

        await world.start("other", lead(), what="lead")
        world.kill("other")
        before = len(under(bucket, "seg/"))
        await seconds(GRACE_S + 60)
        assert zombie.partition.is_fenced
        assert len(under(bucket, "seg/")) == before
        assert not bucket.deleted

    play(scenario)


STEPS: dict[str, Callable[[str, str], bool]] = {
    "the deletion": lambda kind, _: kind == "delete",
    "the receipt": lambda kind, key: kind == "put_if_absent" and RECEIPTS in key,
    "the commit": lambda kind, key: kind == "put_if_match" and key == KEYS.head,
}


@pytest.mark.parametrize("step", STEPS)
def test_a_collection_that_is_cut_off_is_made_good_with_the_same_receipt(step: str) -> None:
    async def scenario(node: TierNode) -> None:
        await expired(node)
        bucket = bucket_of(node)
        await seconds(GRACE_S - 20)

        def shut(kind: str, key: str) -> None:
            node.store.is_closed = node.store.is_closed or STEPS[step](kind, key)

        node.store.watch = shut
        await seconds(60)
        assert node.store.is_closed
        assert head_in(bucket).garbage, "nobody forgot it"
        assert bool(receipts(bucket)) == (step == "the commit")
        node.store.watch = lambda kind, key: None
        node.store.is_closed = False
        await seconds(200)
        assert (head_in(bucket).garbage, under(bucket, "seg/")) == ((), [])
        told = [one.key for receipt in receipts(bucket) for one in receipt.objects]
        assert len(told) == len(set(told)) == 2

    play_node(scenario)


def test_a_restart_goes_on_where_collection_stopped() -> None:
    async def scenario(world: SimWorld, bucket: SimBucket) -> None:
        async def first() -> None:
            await expired(TierNode(world.env(NODE), bucket))

        await world.start(NODE, first(), what="first")
        world.kill(NODE)
        await seconds(2 * GRACE_S)
        assert len(under(bucket, "seg/")) == 2
        second = TierNode(world.env(NODE), bucket, leader_epoch=2)
        second.settings, second.tiering = SETTINGS, SHORT

        async def again() -> None:
            await second.open()
            await seconds(10)

        await world.start(NODE, again(), what="second")
        assert under(bucket, "seg/") == []
        assert head_in(bucket).log_start == 2

    play(scenario)


def test_a_topic_without_retention_collects_its_replaced_pages_without_a_receipt() -> None:
    async def scenario(node: TierNode) -> None:
        limits = Limits(entries_inline=1, leaf_entries=4, leaves_inline=1, index_leaves=2)
        with patch.dict(Append.__init__.__kwdefaults__, limits=limits):
            node.settings = SETTINGS
            await node.open()
            for number in range(3):
                await node.produce_sealed(b"%d" % number)
                await seconds(1)
            assert len(head_in(bucket_of(node)).garbage) == 2
            await seconds(GRACE_S + 60)
            head = head_in(bucket_of(node))
            assert head.garbage == ()
            assert under(bucket_of(node), "page/") == [KEYS.full(head.leaves[0].key)]
            assert not receipts(bucket_of(node))

    play_node(scenario)


def test_a_collector_that_does_not_ask_again_is_caught() -> None:
    """A planted bug: it goes by the HEAD that it knows."""

    async def known(self: PartitionCollector) -> Head:
        assert self._prefix.head is not None
        return self._prefix.head

    async def allowed(*_: object) -> None:
        """It may go."""

    with (
        patch.object(PartitionCollector, "_read_back", known),
        patch.object(PartitionCollector, "_refusal", allowed),
        pytest.raises(AssertionError),
    ):
        test_a_successor_is_met_before_anything_is_deleted()
