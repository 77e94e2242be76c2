"""Deleted topics go from the bucket: these, wholly, whatever comes in between, and no others."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from tests.cold.sweeping import (
    ALIVE,
    DEAD,
    FIRST_LIFE,
    GRACE_MS,
    PREFIX,
    SECOND_LIFE,
    Scene,
    play,
)
from tierlog.cold.clusterstate import DeletedTopic, TopicRecord
from tierlog.cold.layout import STATE
from tierlog.cold.refusals import ForeignIncarnation, TopicDeleted
from tierlog.cold.sweeper import BATCH_OBJECTS, REQUESTS_PER_SECOND
from tierlog.objectstore.around import Request
from tierlog.objectstore.body import BytesBody

HEADS = ["0/HEAD", "1/HEAD"]


async def dead_topic(scene: Scene, *, hold: bool = False) -> None:
    """One deleted topic whose grace is over, and one that lives."""
    await scene.fill(DEAD, hold=hold)
    await scene.fill(ALIVE)
    await scene.delete(DEAD)
    await (await scene.keeper()).put_topics({ALIVE: TopicRecord(name="orders", partitions=2)})
    await scene.grace()


def test_a_deleted_topic_goes_wholly_and_its_namesake_keeps_everything() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        before = scene.left(ALIVE)
        await scene.sweeper().run()
        assert scene.left() == []
        assert scene.left(ALIVE) == before
        assert (list(scene.state().topics), list(scene.state().deleted)) == ([ALIVE], [])
        assert (scene.stats.swept_topics, scene.stats.swept_objects) == (1, 10)
        assert scene.stats.swept_bytes > 0

    play(scenario)


def test_the_receipt_quotes_the_last_manifests() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        await scene.sweeper().run()
        receipt = scene.receipt()
        assert receipt is not None
        assert (receipt.topic, receipt.topic_id, receipt.incarnation) == (
            "orders",
            DEAD,
            FIRST_LIFE,
        )
        assert [one.partition for one in receipt.partitions] == [0, 1]
        assert receipt.swept_ms - receipt.deleted_ms >= GRACE_MS

    play(scenario)


def test_nothing_goes_before_the_grace_is_over() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.fill(DEAD)
        await scene.delete(DEAD)
        sweeper = scene.sweeper()
        due_ms = scene.state().deleted[DEAD].deleted_ms + GRACE_MS
        assert sweeper.due_from_ms == due_ms
        await asyncio.sleep(GRACE_MS / 1000 - 1)
        await sweeper.run()
        assert not scene.store.asked
        assert len(scene.left()) == 10

    play(scenario)


def test_manifests_go_last_and_the_receipt_comes_before_them() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)

        async def look(request: Request) -> None:
            if request.name == "put_if_absent":
                assert scene.left() == HEADS
            if request.name == "delete" and request.key.endswith("HEAD"):
                assert scene.receipt() is not None

        scene.store.on_request = look
        await scene.sweeper().run()
        assert scene.left() == []

    play(scenario)


def test_a_topic_that_stands_in_state_is_not_touched_whatever_was_known_before() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.fill(ALIVE)
        keeper = await scene.keeper()
        state = await keeper.put_topics({ALIVE: TopicRecord(name="orders", partitions=2)})
        sweeper = scene.sweeper()
        note = DeletedTopic(name="orders", partitions=2, deleted_ms=0)
        sweeper._keeper.state = replace(state, deleted={ALIVE: note})
        await sweeper.run()
        assert len(scene.left(ALIVE)) == 10
        assert not scene.store.deleted

    play(scenario)


def test_a_topic_that_is_held_stays_and_is_told() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene, hold=True)
        sweeper = scene.sweeper()
        await sweeper.run()
        assert len(scene.left()) == 10
        assert "case-7" in sweeper.troubles[DEAD]
        assert sweeper.due_from_ms > scene.env.clock.now_ms()
        await scene.fill(DEAD)  # Let go.
        await asyncio.sleep(3601)
        await sweeper.run()
        assert scene.left() == []
        assert not sweeper.troubles

    play(scenario)


def test_a_manifest_that_cannot_be_read_might_hold_something() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        await scene.memory.put(f"{PREFIX}t/{DEAD}/1/HEAD", BytesBody(b"rubbish"))
        sweeper = scene.sweeper()
        await sweeper.run()
        assert len(scene.left()) == 10
        assert "cannot be read" in sweeper.troubles[DEAD]

    play(scenario)


def test_what_the_store_keeps_is_told_and_the_next_topic_has_its_turn() -> None:
    async def scenario(scene: Scene) -> None:
        other = "e" * 32
        await scene.fill(other)
        await scene.delete(other)
        await dead_topic(scene)
        scene.store.kept = {key for key in scene.memory.shelf.items if DEAD in key and "seg" in key}
        sweeper = scene.sweeper()
        await sweeper.run()
        assert "locked" in sweeper.troubles[DEAD]
        assert scene.receipt() is None
        assert set(HEADS) <= set(scene.left())
        assert list(scene.state().deleted) == [DEAD]
        assert scene.left(other) == []

    play(scenario)


def requests_of_a_sweep() -> int:
    async def scenario(scene: Scene) -> int:
        await dead_topic(scene)
        await scene.sweeper().run()
        return len(scene.store.asked)

    return play(scenario)


@pytest.mark.parametrize("is_after", [False, True])
def test_whoever_is_cut_off_anywhere_is_followed_by_one_who_ends_it(is_after: bool) -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        scene.store.cut_at, scene.store.cut_is_after = number, is_after
        await scene.sweeper().run()
        if DEAD not in scene.state().deleted:
            assert scene.left() == []
        elif scene.receipt() is not None:
            assert set(scene.left()) <= set(HEADS)
        elif scene.left() != []:
            assert set(HEADS) <= set(scene.left())
        scene.store.cut_at = None
        await scene.sweeper().run()
        assert (scene.left(), dict(scene.state().deleted)) == ([], {})
        receipt = scene.receipt()
        assert receipt is not None
        assert len(receipt.partitions) == 2

    for number in range(requests_of_a_sweep()):  # noqa: B007  read in the scenario
        play(scenario)


def test_two_nodes_sweep_at_once() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        one, other = scene.sweeper(), scene.sweeper()
        await asyncio.gather(one.run(), other.run())
        assert (scene.left(), dict(scene.state().deleted)) == ([], {})
        assert not one.troubles
        assert not other.troubles

    play(scenario)


def test_a_later_life_goes_on_and_the_old_one_ends() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        old = scene.sweeper()
        later = scene.sweeper(SECOND_LIFE)
        await later._keeper.begin_life(after=FIRST_LIFE)
        with pytest.raises(ForeignIncarnation):
            await old.run()
        assert len(scene.left()) == 10
        await later.run()
        assert (scene.left(), dict(scene.state().deleted)) == ([], {})

    play(scenario)


def test_uploads_that_were_left_half_way_are_aborted() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        await scene.memory.begin_upload(f"{PREFIX}t/{DEAD}/0/seg/half")
        await scene.memory.begin_upload(f"{PREFIX}t/{ALIVE}/0/seg/half")
        await scene.sweeper().run()
        assert [one.upload.key for one in scene.memory.shelf.uploads.values()] == [
            f"{PREFIX}t/{ALIVE}/0/seg/half"
        ]

    play(scenario)


def test_a_large_topic_goes_in_batches_at_a_bounded_rate() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        for number in range(1500):
            await scene.memory.put(f"{PREFIX}t/{DEAD}/0/seg/{number:05d}", BytesBody(b""))
        begun = scene.env.clock.monotonic()
        await scene.sweeper().run()
        deletions = [one for one in scene.store.asked if one.name == "delete"]
        assert len(deletions) >= 1500 // BATCH_OBJECTS
        took = scene.env.clock.monotonic() - begun
        assert took >= (2 * len(deletions) - 1) / REQUESTS_PER_SECOND
        assert scene.left() == []

    play(scenario)


def test_a_deletion_that_is_noted_again_after_the_sweep_is_forgotten_again() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        await scene.sweeper().run()
        await (await scene.keeper()).delete_topic(DEAD)
        await scene.grace()
        await scene.sweeper().run()
        assert dict(scene.state().deleted) == {}
        receipt = scene.receipt()
        assert receipt is not None
        assert receipt.topic == "orders"

    play(scenario)


def test_a_receipt_is_kept_by_a_store_that_ignores_conditions() -> None:
    """What was cut off behind the receipt, and what landed late, is swept again: when the manifests
    that the first receipt quotes may be gone."""

    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        await scene.sweeper().run()
        kept = scene.receipt()
        assert kept is not None
        assert len(kept.partitions) == 2
        scene.store.lies = True
        await scene.memory.put(f"{PREFIX}t/{DEAD}/0/seg/late", BytesBody(b"late"))
        await (await scene.keeper()).delete_topic(DEAD)
        await scene.grace()
        await scene.sweeper().run()
        assert (scene.left(), dict(scene.state().deleted)) == ([], {})
        assert scene.receipt() == kept

    play(scenario)


def test_a_topic_that_was_swept_does_not_come_back_from_an_old_data_directory() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        await scene.sweeper().run()
        keeper = await scene.keeper()
        with pytest.raises(TopicDeleted):
            await keeper.put_topics({DEAD: TopicRecord(name="orders", partitions=2)})
        assert list(scene.state().topics) == [ALIVE]

    play(scenario)


def test_state_is_read_again_before_every_batch() -> None:
    async def scenario(scene: Scene) -> None:
        await dead_topic(scene)
        await scene.sweeper().run()
        names = [
            "state" if one.key == PREFIX + STATE else one.name
            for one in scene.store.asked
            if one.name == "delete" or one.key == PREFIX + STATE
        ]
        assert all(
            before == "state" for before, name in itertools.pairwise(names) if name == "delete"
        )
        assert names.count("delete") == 2

    play(scenario)
