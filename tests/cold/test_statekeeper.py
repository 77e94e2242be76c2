"""STATE in the bucket: who may change it, and that a change happens once."""

import pytest

from tests.cold.publishing import CLUSTER, FIRST_LIFE, SECOND_LIFE, TOPIC_ID, Scene, play
from tests.cold.scripted import Fate
from tierlog.cold.clusterstate import ClusterState, TopicRecord, decode_format, decode_state
from tierlog.cold.head import Incarnation
from tierlog.cold.layout import cluster_prefix, topic_receipt_key
from tierlog.cold.refusals import (
    ForeignIncarnation,
    ForeignObject,
    StateLost,
    SwapUncertain,
    TopicDeleted,
)
from tierlog.cold.statekeeper import StateKeeper
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed

ORDERS = TopicRecord(name="orders", partitions=2, configs={"retention.ms": "5"})
PREFIX = cluster_prefix("", CLUSTER)
ALL_FATES = [fate for fate in Fate if fate is not Fate.FINE]


def keeper(
    scene: Scene, incarnation: Incarnation = FIRST_LIFE, *, cluster_id: str = CLUSTER
) -> StateKeeper:
    return StateKeeper(
        scene.store, PREFIX, scene.env, cluster_id=cluster_id, incarnation=incarnation
    )


def stored(scene: Scene) -> ClusterState:
    return decode_state(scene.store.shelf.items[PREFIX + "cluster/STATE"].data)


async def joined(scene: Scene, incarnation: Incarnation = FIRST_LIFE) -> StateKeeper:
    one = keeper(scene, incarnation)
    await one.join()
    return one


def test_the_first_to_join_founds_the_cluster() -> None:
    async def scenario(scene: Scene) -> None:
        state = await keeper(scene).join()
        assert state == stored(scene)
        assert (state.incarnation, state.version) == (FIRST_LIFE, 1)
        assert decode_format(scene.store.shelf.items[PREFIX + "format.json"].data) == CLUSTER

    play(scenario)


@pytest.mark.parametrize("fate", ALL_FATES)
@pytest.mark.parametrize("which", [0, 1])
def test_founding_survives_every_answer(fate: Fate, which: int) -> None:
    async def scenario(scene: Scene) -> None:
        scene.store.fates.extend([Fate.FINE] * which + [fate])
        await keeper(scene).join()
        await keeper(scene).join()
        await scene.store.land()
        assert stored(scene).version == 1

    play(scenario)


def test_founding_goes_on_where_it_was_cut_off() -> None:
    async def scenario(scene: Scene) -> None:
        await joined(scene)
        await scene.store.delete([Doomed(PREFIX + "cluster/STATE")])
        await joined(scene)
        assert stored(scene).incarnation == FIRST_LIFE

    play(scenario)


@pytest.mark.parametrize("fate", ALL_FATES)
def test_a_change_happens_once_whatever_was_answered(fate: Fate) -> None:
    async def scenario(scene: Scene) -> None:
        one = await joined(scene)
        scene.store.fates.append(fate)
        state = await one.put_topics({TOPIC_ID: ORDERS})
        await scene.store.land()
        assert state == stored(scene)
        assert (state.version, state.topics) == (2, {TOPIC_ID: ORDERS})

    play(scenario)


def test_what_is_so_already_is_not_written() -> None:
    async def scenario(scene: Scene) -> None:
        one = await joined(scene)
        await one.put_topics({TOPIC_ID: ORDERS})
        await one.put_topics({TOPIC_ID: ORDERS})
        assert stored(scene).version == 2
        await one.delete_topic(TOPIC_ID)
        await one.delete_topic(TOPIC_ID)
        assert stored(scene).version == 3

    play(scenario)


def test_a_creation_that_lands_after_the_deletion_does_not_bring_the_topic_back() -> None:
    async def scenario(scene: Scene) -> None:
        one = await joined(scene)
        scene.store.fates.extend([Fate.LATE] * 7)
        with pytest.raises(SwapUncertain):
            await one.put_topics({TOPIC_ID: ORDERS})
        await one.delete_topic(TOPIC_ID)
        await scene.store.land()
        assert (list(stored(scene).topics), list(stored(scene).deleted)) == ([], [TOPIC_ID])

    play(scenario)


def test_a_cluster_that_was_founded_is_not_founded_in_another_store() -> None:
    async def scenario(scene: Scene) -> None:
        one = keeper(scene)
        with pytest.raises(StateLost, match="not mounted"):
            await one.join(may_found=False)
        assert not scene.store.shelf.items

    play(scenario)


def test_a_topic_may_be_published_once_the_bucket_knows_all_its_partitions() -> None:
    async def scenario(scene: Scene) -> None:
        one = await joined(scene)
        assert not one.covers(TOPIC_ID, partitions=1)
        await one.put_topics({TOPIC_ID: ORDERS})
        assert one.covers(TOPIC_ID, partitions=2)
        assert not one.covers(TOPIC_ID, partitions=3)

    play(scenario)


def test_a_deleted_topic_stays_deleted_until_it_is_swept() -> None:
    async def scenario(scene: Scene) -> None:
        one = await joined(scene)
        await one.put_topics({TOPIC_ID: ORDERS})
        await one.delete_topic(TOPIC_ID)
        await one.delete_topic(TOPIC_ID)
        assert stored(scene).topics == {}
        assert stored(scene).deleted[TOPIC_ID].partitions == 2
        with pytest.raises(TopicDeleted):
            await one.put_topics({TOPIC_ID: ORDERS})
        await one.swept(TOPIC_ID)
        assert stored(scene).deleted == {}

    play(scenario)


def test_a_topic_that_another_node_swept_is_not_brought_back() -> None:
    """By one that last read STATE when it was listed there, as a copy of a node may have."""

    async def scenario(scene: Scene) -> None:
        one, two = await joined(scene), await joined(scene)
        await one.put_topics({TOPIC_ID: ORDERS})
        await two.refresh()
        await one.delete_topic(TOPIC_ID)
        await scene.store.put_if_absent(PREFIX + topic_receipt_key(TOPIC_ID), BytesBody(b"gone"))
        await one.swept(TOPIC_ID)
        altered = {TOPIC_ID: TopicRecord(name="orders", partitions=3)}
        with pytest.raises(TopicDeleted):
            await two.put_topics(altered)
        assert stored(scene).topics == {}

    play(scenario)


def test_partitions_never_become_fewer() -> None:
    async def scenario(scene: Scene) -> None:
        one = await joined(scene)
        await one.put_topics({TOPIC_ID: ORDERS})
        await one.put_topics({TOPIC_ID: TopicRecord(name="orders", partitions=1)})
        assert stored(scene).topics[TOPIC_ID] == TopicRecord(name="orders", partitions=2)

    play(scenario)


def test_two_keepers_do_not_lose_each_others_changes() -> None:
    async def scenario(scene: Scene) -> None:
        one, two = await joined(scene), await joined(scene)

        async def faster() -> None:
            await two.put_topics({"e" * 32: ORDERS})

        scene.store.before_write = faster
        await one.put_topics({TOPIC_ID: ORDERS})
        assert set(stored(scene).topics) == {TOPIC_ID, "e" * 32}

    play(scenario)


def test_a_restore_begins_a_life_and_the_old_one_writes_nothing_any_more() -> None:
    async def scenario(scene: Scene) -> None:
        old = await joined(scene)
        new = keeper(scene, SECOND_LIFE)
        state = await new.begin_life(after=FIRST_LIFE)
        assert [life.incarnation for life in state.lineage] == [FIRST_LIFE, SECOND_LIFE]
        assert state.ancestors == (FIRST_LIFE,)
        for call in (old.refresh, lambda: old.put_topics({TOPIC_ID: ORDERS}), old.join):
            with pytest.raises(ForeignIncarnation, match="serves reads only"):
                await call()
        assert stored(scene).topics == {}

    play(scenario)


@pytest.mark.parametrize("fate", ALL_FATES)
def test_a_life_begins_once(fate: Fate) -> None:
    async def scenario(scene: Scene) -> None:
        await joined(scene)
        new = keeper(scene, SECOND_LIFE)
        scene.store.fates.append(fate)
        await new.begin_life(after=FIRST_LIFE)
        await new.begin_life(after=FIRST_LIFE)
        await scene.store.land()
        assert len(stored(scene).lineage) == 2

    play(scenario)


def test_of_two_restores_at_once_one_goes_on() -> None:
    async def scenario(scene: Scene) -> None:
        await joined(scene)
        rival = SECOND_LIFE._replace(id="rival")

        async def faster() -> None:
            await keeper(scene, rival).begin_life(after=FIRST_LIFE)

        scene.store.before_write = faster
        with pytest.raises(ForeignIncarnation):
            await keeper(scene, SECOND_LIFE).begin_life(after=FIRST_LIFE)
        assert stored(scene).incarnation == rival

    play(scenario)


def test_the_state_of_another_cluster_is_refused() -> None:
    async def scenario(scene: Scene) -> None:
        await joined(scene)
        with pytest.raises(ForeignObject, match=CLUSTER):
            await keeper(scene, cluster_id="other").refresh()

    play(scenario)
