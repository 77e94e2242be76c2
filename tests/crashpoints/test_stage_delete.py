"""Crash points of a topic's deletion: a spread of them, and proof that they find something."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from tests.crashpoints.points import End, Shot
from tests.crashpoints.stage_delete import TALE, tell
from tierlog.cold.clusterstate import DeletedTopic
from tierlog.cold.sweeper import Sweeper
from tierlog.sim.storefaults import When

SAMPLE = 48
SLICES = 4


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_the_story_passes_through_the_whole_deletion() -> None:
    kinds = [point.what.split(" ")[0] for point in TALE.points()]
    changing = {"put_if_match", "put_if_absent", "delete"}
    copying = {"open", "truncate", "pwrite", "fdatasync", "rename", "sync_dir"}
    """Of STATE, to the local disk."""
    assert {"get", "head", "list", "list_uploads"} | changing | copying == set(kinds)
    assert kinds.count("delete") == 2, "data, then manifests"
    assert kinds.count("put_if_match") == 2, "the note, and its end"
    assert len(TALE.shots()) >= 240


def test_a_death_a_lost_answer_and_two_zombies_at_the_deletion_of_the_data() -> None:
    (point, _) = [one for one in TALE.points() if one.what.startswith("delete")]
    failed = TALE.failures([Shot(point.number, When.AMBIGUOUS, end) for end in End])
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLICES))
def test_a_deletion_comes_to_its_end_wherever_it_stops(first: int) -> None:
    failed = TALE.failures(TALE.spread(SAMPLE)[first::SLICES])
    assert not failed, "\n".join(failed)


# Planted


@contextmanager
def sweeps_whatever_state_lists() -> Iterator[None]:
    """Topics that live are taken for deleted ones."""

    def all_of_them(self: Sweeper) -> Mapping[str, DeletedTopic]:
        state = self._keeper.state
        if state is None or not state.deleted:
            return {}
        notes = {
            key: DeletedTopic(name=one.name, partitions=one.partitions, deleted_ms=0)
            for key, one in state.topics.items()
        }
        return {**state.deleted, **notes}

    async def believed(self: Sweeper, topic_id: str) -> DeletedTopic:
        return DeletedTopic(name=topic_id, partitions=1, deleted_ms=0)

    with (
        patch.object(Sweeper, "waiting", property(all_of_them)),
        patch.object(Sweeper, "_note", believed),
    ):
        yield


@contextmanager
def note_removed_first() -> Iterator[None]:
    """The note in STATE goes, then the objects do."""
    sweep, note = Sweeper._sweep, Sweeper._note
    known: dict[str, DeletedTopic] = {}

    async def hasty(self: Sweeper, topic_id: str) -> None:
        known[topic_id] = await note(self, topic_id)
        await self._keeper.swept(topic_id)
        await sweep(self, topic_id)

    async def remembered(self: Sweeper, topic_id: str) -> DeletedTopic:
        return known.get(topic_id) or await note(self, topic_id)

    with patch.object(Sweeper, "_sweep", hasty), patch.object(Sweeper, "_note", remembered):
        yield


@contextmanager
def receipt_without_deletion() -> Iterator[None]:
    """What the store was asked to delete is not looked at again: one batch is forgotten."""
    delete_until_gone = Sweeper._delete_until_gone

    async def careless(self: Sweeper, topic_id: str, prefix: str, *, spare_heads: bool) -> None:
        if not spare_heads:
            await delete_until_gone(self, topic_id, prefix, spare_heads=False)

    with patch.object(Sweeper, "_delete_until_gone", careless):
        yield


@contextmanager
def manifests_not_swept() -> Iterator[None]:
    with patch.object(Sweeper, "_is_head", lambda *_: True):
        delete_until_gone = Sweeper._delete_until_gone

        async def sparing(self: Sweeper, topic_id: str, prefix: str, **_: bool) -> None:
            await delete_until_gone(self, topic_id, prefix, spare_heads=True)

        with patch.object(Sweeper, "_delete_until_gone", sparing):
            yield


FOUND_BY = 1
"""A seed in which each bug is told by its own words: in others the first of them only keeps the
node from coming to rest, since a page is gone that it wants to read."""

PLANTED = {
    "there is no object": sweeps_whatever_state_lists,
    "the note in STATE is gone": note_removed_first,
    "the receipt is written": receipt_without_deletion,
    "is left": manifests_not_swept,
}


@pytest.mark.parametrize("complaint", PLANTED)
def test_a_planted_bug_is_found(complaint: str) -> None:
    with PLANTED[complaint]():
        problems = tell(None, seed=FOUND_BY).problems
    assert any(complaint in one for one in problems), problems
