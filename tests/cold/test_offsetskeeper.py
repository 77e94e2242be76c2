"""OFFSETS in the bucket: who may write it, what a write costs, and whom a restore fences."""

import pytest

from tests.cold.publishing import CLUSTER, FIRST_LIFE, SECOND_LIFE, TOPIC_ID, Scene, play
from tests.cold.scripted import Fate
from tierlog.cold.clusteroffsets import ClusterOffsets, GroupOffset, Spot, decode_offsets
from tierlog.cold.head import Incarnation
from tierlog.cold.layout import cluster_prefix
from tierlog.cold.offsetskeeper import OffsetsKeeper
from tierlog.cold.refusals import (
    FencedByNewer,
    FencedByTwin,
    ForeignIncarnation,
    ForeignObject,
    SwapUncertain,
)
from tierlog.objectstore.port import Doomed
from tierlog.types import LeaderEpoch, Offset

PREFIX = cluster_prefix("", CLUSTER)
ALL_FATES = [fate for fate in Fate if fate is not Fate.FINE]
EPOCH = LeaderEpoch(5)


def keeper(
    scene: Scene,
    incarnation: Incarnation = FIRST_LIFE,
    *,
    process: str = "one",
    cluster_id: str = CLUSTER,
) -> OffsetsKeeper:
    return OffsetsKeeper(
        scene.store,
        PREFIX,
        scene.env,
        cluster_id=cluster_id,
        incarnation=incarnation,
        process=process,
    )


def at(offset: int) -> dict[str, dict[Spot, GroupOffset]]:
    return {"g": {Spot(TOPIC_ID, 0): GroupOffset(Offset(offset), 1, "", 5)}}


def stored(scene: Scene) -> ClusterOffsets:
    return decode_offsets(scene.store.shelf.items[PREFIX + "cluster/OFFSETS"].data)


def test_offsets_are_written_and_only_when_they_changed() -> None:
    async def scenario(scene: Scene) -> None:
        one = keeper(scene)
        assert await one.put(at(1), leader_epoch=EPOCH)
        assert not await one.put(at(1), leader_epoch=EPOCH)
        assert stored(scene).version == 1
        assert await one.put(at(2), leader_epoch=EPOCH)
        assert (stored(scene).version, stored(scene).groups) == (2, at(2))

    play(scenario)


def test_a_write_reads_nothing_while_nobody_else_writes() -> None:
    async def scenario(scene: Scene) -> None:
        one = keeper(scene)
        await one.put(at(1), leader_epoch=EPOCH)
        before = scene.store.calls
        await one.put(at(2), leader_epoch=EPOCH)
        assert scene.store.calls == before + 1

    play(scenario)


@pytest.mark.parametrize("fate", ALL_FATES)
@pytest.mark.parametrize("which", [0, 1])
def test_a_write_survives_every_answer(fate: Fate, which: int) -> None:
    async def scenario(scene: Scene) -> None:
        one = keeper(scene)
        await one.put(at(1), leader_epoch=EPOCH)
        scene.store.fates.extend([Fate.FINE] * which + [fate])
        for offset in (2, 3):
            try:
                await one.put(at(offset), leader_epoch=EPOCH)
            except SwapUncertain:
                await one.put(at(offset), leader_epoch=EPOCH)
        await scene.store.land()
        assert stored(scene).groups == at(3)

    play(scenario)


def test_a_restore_takes_what_is_there_and_ends_the_older_life() -> None:
    async def scenario(scene: Scene) -> None:
        old = keeper(scene)
        await old.put(at(1), leader_epoch=EPOCH)
        new = keeper(scene, SECOND_LIFE, process="restore")
        assert (await new.claim()).groups == at(1)
        version = stored(scene).version
        assert (await new.claim()).groups == at(1), "again, after a crash"
        assert stored(scene).version == version
        with pytest.raises(ForeignIncarnation):
            await old.put(at(9), leader_epoch=EPOCH)
        with pytest.raises(ForeignIncarnation):
            await keeper(scene, process="two").put(at(9), leader_epoch=LeaderEpoch(99))
        assert stored(scene).groups == at(1)

    play(scenario)


def test_a_restore_of_a_cluster_without_groups_ends_the_older_life_too() -> None:
    async def scenario(scene: Scene) -> None:
        assert not (await keeper(scene, SECOND_LIFE, process="restore").claim()).groups
        with pytest.raises(ForeignIncarnation):
            await keeper(scene).put(at(9), leader_epoch=EPOCH)

    play(scenario)


def test_the_first_leader_after_a_restore_goes_on() -> None:
    async def scenario(scene: Scene) -> None:
        await keeper(scene).put(at(1), leader_epoch=EPOCH)
        await keeper(scene, SECOND_LIFE, process="restore").claim()
        node = keeper(scene, SECOND_LIFE, process="node")
        assert await node.put(at(1), leader_epoch=LeaderEpoch(1))
        assert await node.put(at(2), leader_epoch=LeaderEpoch(1))

    play(scenario)


def test_an_older_leader_and_a_twin_are_fenced() -> None:
    async def scenario(scene: Scene) -> None:
        await keeper(scene, process="late").put(at(1), leader_epoch=EPOCH)
        with pytest.raises(FencedByNewer):
            await keeper(scene, process="early").put(at(2), leader_epoch=LeaderEpoch(4))
        with pytest.raises(FencedByTwin):
            await keeper(scene, process="twin").put(at(2), leader_epoch=EPOCH)
        assert stored(scene).groups == at(1)

    play(scenario)


def test_offsets_of_another_cluster_are_not_touched() -> None:
    async def scenario(scene: Scene) -> None:
        await keeper(scene, cluster_id="another").put(at(1), leader_epoch=EPOCH)
        with pytest.raises(ForeignObject):
            await keeper(scene).put(at(2), leader_epoch=EPOCH)

    play(scenario)


def test_an_object_that_somebody_deleted_is_made_again_by_the_life_that_may() -> None:
    async def scenario(scene: Scene) -> None:
        one = keeper(scene)
        await one.put(at(1), leader_epoch=EPOCH)
        await scene.store.delete([Doomed(PREFIX + "cluster/OFFSETS")])
        assert await one.put(at(2), leader_epoch=EPOCH)
        assert stored(scene).groups == at(2)

    play(scenario)


def test_before_the_object_is_made_the_life_is_looked_at() -> None:
    async def scenario(scene: Scene) -> None:
        async def over() -> None:
            raise ForeignIncarnation("STATE", mine=FIRST_LIFE, found=SECOND_LIFE)

        one = OffsetsKeeper(
            scene.store,
            PREFIX,
            scene.env,
            cluster_id=CLUSTER,
            incarnation=FIRST_LIFE,
            process="one",
            check_life=over,
        )
        with pytest.raises(ForeignIncarnation):
            await one.put(at(1), leader_epoch=EPOCH)
        assert not scene.store.shelf.items

    play(scenario)
