"""A STATE or a HEAD that the store lost: who puts it back, and who must not."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.cold.publishing import (
    CLUSTER,
    FIRST_LIFE,
    KEYS,
    SECOND_LIFE,
    TOPIC_ID,
    Scene,
    play,
    segments,
)
from tests.cold.test_statekeeper import ORDERS, PREFIX, stored
from tests.cold.tiering import KEYS as NODE_KEYS
from tests.cold.tiering import TOPIC_ID as NODE_TOPIC
from tests.cold.tiering import TierNode, bucket_of, head_in, play_node
from tierlog.cold import canonical
from tierlog.cold.clusterstate import TopicRecord, decode_state, encode_state
from tierlog.cold.codec import encode_head
from tierlog.cold.errors import ColdCorrupt, NewerFormat
from tierlog.cold.head import Incarnation
from tierlog.cold.layout import segment_key, topic_receipt_key
from tierlog.cold.offsetskeeper import OffsetsKeeper
from tierlog.cold.refusals import Fenced, ForeignIncarnation, HeadGarbled, StateLost, TopicDeleted
from tierlog.cold.statekeeper import StateKeeper
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed
from tierlog.objectstore.shelf import Shelf
from tierlog.types import LeaderEpoch, Offset

STATE = PREFIX + "cluster/STATE"
OTHER = "e" * 32
GARBAGE = b"garbage"
NEWER = b'{"format":2}'


def keeper(scene: Scene, incarnation: Incarnation = FIRST_LIFE) -> StateKeeper:
    """Of a node with a disk."""
    return StateKeeper(
        scene.store,
        PREFIX,
        scene.env,
        cluster_id=CLUSTER,
        incarnation=incarnation,
        copies=scene.copies,
    )


Loss = Callable[[Scene, bytes], Awaitable[None]]


async def remove(scene: Scene, _: bytes) -> None:
    await scene.store.delete([Doomed(STATE)])


async def garble(scene: Scene, _: bytes) -> None:
    await scene.store.put(STATE, BytesBody(GARBAGE))


async def roll_back(scene: Scene, older: bytes) -> None:
    await scene.store.put(STATE, BytesBody(older))


LOSSES = pytest.mark.parametrize("lose", [remove, garble, roll_back])


async def with_topics(scene: Scene) -> tuple[StateKeeper, bytes]:
    """Two, of which one is deleted since; and STATE as it was before that."""
    one = keeper(scene)
    await one.join()
    older = scene.store.shelf.items[STATE].data
    await one.put_topics({TOPIC_ID: ORDERS, OTHER: TopicRecord(name="other", partitions=1)})
    await one.delete_topic(OTHER)
    return one, older


# STATE


@LOSSES
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_state_that_is_lost_is_put_back(lose: Loss, is_restarted: bool) -> None:
    async def scenario(scene: Scene) -> None:
        one, older = await with_topics(scene)
        before = stored(scene)
        await lose(scene, older)
        one = keeper(scene) if is_restarted else one
        state = await one.join(may_found=False)
        assert state == stored(scene)
        assert (state.topics, state.deleted) == (before.topics, before.deleted)
        assert (state.lineage, state.version) == (before.lineage, before.version + 1)
        assert await scene.copies.load_state(CLUSTER) == state

    play(scenario)


@LOSSES
def test_a_change_goes_on_top_of_what_is_put_back(lose: Loss) -> None:
    async def scenario(scene: Scene) -> None:
        one, older = await with_topics(scene)
        await lose(scene, older)
        await one.put_topics({"f" * 32: ORDERS})
        assert set(stored(scene).topics) == {TOPIC_ID, "f" * 32}

    play(scenario)


@LOSSES
@pytest.mark.parametrize("told_by", ["offsets", "head"])
def test_a_node_whose_cluster_was_restored_elsewhere_puts_nothing_back(
    lose: Loss, told_by: str
) -> None:
    async def scenario(scene: Scene) -> None:
        one, older = await with_topics(scene)
        await keeper(scene, SECOND_LIFE).begin_life(after=FIRST_LIFE)
        if told_by == "offsets":
            offsets = OffsetsKeeper(
                scene.store,
                PREFIX,
                scene.env,
                cluster_id=CLUSTER,
                incarnation=SECOND_LIFE,
                process="x",
            )
            await offsets.claim()
        else:
            await scene.leader(9, incarnation=SECOND_LIFE).claim()
        await lose(scene, older)
        left = dict(scene.store.shelf.items)
        with pytest.raises(ForeignIncarnation):
            await one.refresh()
        assert scene.store.shelf.items == left

    play(scenario)


def test_a_later_life_takes_back_what_was_rolled_back_over_it() -> None:
    async def scenario(scene: Scene) -> None:
        await with_topics(scene)
        older = scene.store.shelf.items[STATE].data
        two = keeper(scene, SECOND_LIFE)
        await two.begin_life(after=FIRST_LIFE)
        await roll_back(scene, older)
        state = await two.refresh()
        assert state.incarnation == SECOND_LIFE
        assert state == stored(scene)

    play(scenario)


def test_a_state_is_not_put_into_a_store_that_is_another() -> None:
    async def scenario(scene: Scene) -> None:
        one, _ = await with_topics(scene)
        scene.store.shelf.items.clear()
        with pytest.raises(StateLost, match="not mounted"):
            await one.refresh()
        assert not scene.store.shelf.items

    play(scenario)


def test_what_a_newer_tierlog_wrote_is_not_replaced() -> None:
    async def scenario(scene: Scene) -> None:
        one, _ = await with_topics(scene)
        newer = canonical.compress(NEWER)
        await scene.store.put(STATE, BytesBody(newer))
        with pytest.raises(NewerFormat):
            await one.refresh()
        assert scene.store.shelf.items[STATE].data == newer

    play(scenario)


def test_without_a_copy_the_sentence_says_what_to_do() -> None:
    async def scenario(scene: Scene) -> None:
        await with_topics(scene)
        await garble(scene, b"")
        alone = StateKeeper(
            scene.store, PREFIX, scene.env, cluster_id=CLUSTER, incarnation=FIRST_LIFE
        )
        with pytest.raises(StateLost, match="put its newest sound version back"):
            await alone.join(may_found=False)
        assert scene.store.shelf.items[STATE].data == GARBAGE

    play(scenario)


def test_somebody_who_is_faster_is_not_overwritten() -> None:
    async def scenario(scene: Scene) -> None:
        one, older = await with_topics(scene)
        await roll_back(scene, older)

        async def faster() -> None:
            await keeper(scene).put_topics({"f" * 32: ORDERS})

        scene.store.before_write = faster
        await one.refresh()
        assert set(stored(scene).topics) == {TOPIC_ID, "f" * 32}

    play(scenario)


# A node


def rewrite(node: TierNode, key: str, data: bytes | None) -> None:
    items = bucket_of(node).shelf.items
    items.pop(key, None)
    if data is not None:
        shelf = Shelf()
        shelf.put(key, data, now_ms=1)
        items[key] = shelf.items[key]


async def uploaded(node: TierNode) -> None:
    for _ in range(600):
        if node.prefix.uploaded_end == node.log.log_end:
            return
        await asyncio.sleep(0.5)
    raise AssertionError(node.tier.last_error or node.partition.status.last_error)


NODE_STATE = NODE_KEYS.cluster_prefix + "cluster/STATE"


@pytest.mark.parametrize("loss", ["gone", "garbage", "older"])
def test_a_node_whose_state_is_lost_goes_on_uploading(loss: str) -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"one")
        await uploaded(node)
        known = decode_state(bucket_of(node).shelf.items[NODE_STATE].data)
        older = encode_state(replace(known, version=known.version - 1, topics={}))
        rewrite(node, NODE_STATE, {"gone": None, "garbage": GARBAGE, "older": older}[loss])
        await asyncio.sleep(61)
        await node.produce_sealed(b"two")
        await uploaded(node)
        state = decode_state(bucket_of(node).shelf.items[NODE_STATE].data)
        assert state.topics == known.topics
        assert node.tier.is_ready

    play_node(scenario)


def test_a_topic_is_deleted_only_if_state_or_a_receipt_says_so() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"one")
        await uploaded(node)
        keeper, place = node.tier.membership.keeper, node.partition.place
        assert keeper.state is not None
        keeper.state = keeper._known = replace(keeper.state, topics={})
        await node.tier.membership.require_saved(place)
        assert NODE_TOPIC in keeper.state.topics
        keeper.state = keeper._known = replace(keeper.state, topics={})
        rewrite(node, NODE_STATE, encode_state(keeper.state))
        rewrite(node, NODE_KEYS.cluster_prefix + topic_receipt_key(NODE_TOPIC), b"swept")
        with pytest.raises(TopicDeleted):
            await node.tier.membership.require_saved(place)

    play_node(scenario)


def test_a_state_that_cannot_be_put_back_is_told_and_nothing_is_ready() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"one")
        await uploaded(node)
        kept = bucket_of(node).shelf.items.pop(NODE_KEYS.cluster_prefix + "format.json").data
        rewrite(node, NODE_STATE, None)
        await asyncio.sleep(70)
        assert (node.tier.is_ready, node.tier.is_state_lost) == (False, True)
        assert "the store has no" in (node.tier.last_error or "")
        rewrite(node, NODE_KEYS.cluster_prefix + "format.json", kept)
        await node.produce_sealed(b"two")
        await uploaded(node)
        assert (node.tier.is_ready, node.tier.is_state_lost) == (True, False)

    play_node(scenario)


@pytest.mark.parametrize("data", [GARBAGE, b""])
def test_a_head_that_cannot_be_read_is_put_back(data: bytes) -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"one")
        await uploaded(node)
        rewrite(node, NODE_KEYS.head, data)
        await node.produce_sealed(b"two")
        await uploaded(node)
        assert head_in(bucket_of(node)).next_offset == node.log.log_end

    play_node(scenario)


# HEAD


async def published(scene: Scene, epoch: int = 3) -> None:
    one = scene.leader(epoch, copies=scene.copies)
    await one.commit(scene.append(*segments(2)))
    for entry in segments(2):
        await scene.store.put(KEYS.full(entry.key), BytesBody(b"x"))


def test_a_garbled_head_is_replaced_under_its_own_condition() -> None:
    async def scenario(scene: Scene) -> None:
        await published(scene)
        await scene.store.put(KEYS.head, BytesBody(GARBAGE))
        one = scene.leader(4, "restarted", copies=scene.copies)
        with pytest.raises(HeadGarbled, match="cannot be read"):
            await one.claim()
        right = encode_head(replace(scene.leader(9)._first(), version=50, nonce="y"))

        async def faster() -> None:
            await scene.store.put(KEYS.head, BytesBody(right))

        scene.store.before_write = faster
        with pytest.raises(Exception, match="replaced by somebody else"):
            await one.repair()
        assert scene.store.shelf.items[KEYS.head].data == right
        await scene.store.put(KEYS.head, BytesBody(GARBAGE))
        await one.repair()
        assert scene.published().next_offset == segments(2)[-1].next_offset

    play(scenario)


def test_a_zombie_does_not_put_back_what_may_be_its_successors() -> None:
    async def scenario(scene: Scene) -> None:
        await published(scene)
        end = segments(2)[-1].next_offset
        key = segment_key(
            base=end, last=Offset(end + 9), leader_epoch=LeaderEpoch(8), node=2, attempt=1
        )
        await scene.store.put(KEYS.full(key), BytesBody(b"x"))
        for wrong in (GARBAGE, None):
            if wrong is None:
                await scene.store.delete([Doomed(KEYS.head)])
            else:
                await scene.store.put(KEYS.head, BytesBody(wrong))
            left = dict(scene.store.shelf.items)
            with pytest.raises(Fenced, match="leader epoch 8"):
                await scene.leader(3, copies=scene.copies).repair()
            assert scene.store.shelf.items == left

    play(scenario)


def test_a_head_is_not_put_back_once_the_cluster_lives_elsewhere() -> None:
    async def scenario(scene: Scene) -> None:
        await published(scene)
        node = keeper(scene)
        await node.join()
        await keeper(scene, SECOND_LIFE).begin_life(after=FIRST_LIFE)
        await scene.store.put(KEYS.head, BytesBody(GARBAGE))
        one = scene.leader(3, copies=scene.copies)
        one._check_life = node.refresh
        with pytest.raises(ForeignIncarnation):
            await one.repair()
        assert scene.store.shelf.items[KEYS.head].data == GARBAGE

    play(scenario)


def test_a_head_without_a_copy_is_left_and_the_sentence_says_what_to_do() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.store.put(KEYS.head, BytesBody(GARBAGE))
        with pytest.raises(ColdCorrupt, match="put its newest sound version back"):
            await scene.leader(3).claim()
        assert scene.store.shelf.items[KEYS.head].data == GARBAGE

    play(scenario)
