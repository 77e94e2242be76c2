"""Crash points of merging: a spread of them, and proof that they find something."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.crashpoints.points import End, Shot
from tests.crashpoints.stage_merge import TALE, tell
from tierlog.cold import chain, invariants, replacing
from tierlog.cold.entry import Entry
from tierlog.cold.merger import Merged, Merger
from tierlog.objectstore.port import Doomed
from tierlog.sim.storefaults import When

SAMPLE = 32
SLICES = 4


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_the_story_passes_through_the_whole_of_a_merge() -> None:
    calls = Counter(point.what.split(" ")[0] for point in TALE.points())
    assert {"get", "head", "put_if_match", "pwrite", "unlink"} <= set(calls)
    assert calls["complete_upload"], "objects in parts"
    assert calls["put_if_absent"] > calls["put_if_match"], "pages are replaced"
    assert len(TALE.shots()) >= 600


def test_a_death_a_lost_answer_and_two_zombies_at_the_commit_of_a_merge() -> None:
    point = next(one for one in TALE.points() if one.what.startswith("put_if_match"))
    failed = TALE.failures([Shot(point.number, When.AMBIGUOUS, end) for end in End])
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLICES))
def test_a_merge_loses_nothing_wherever_it_stops(first: int) -> None:
    failed = TALE.failures(TALE.spread(SAMPLE)[first::SLICES])
    assert not failed, "\n".join(failed)


# Planted: each undoes the checks before a publish as well, which alone would refuse it.


@contextmanager
def unchecked() -> Iterator[None]:
    with (
        patch.object(replacing, "require_same", lambda *_, **__: None),
        patch.object(chain, "replay", lambda *_, **__: None),
        patch("tierlog.cold.publisher.check", lambda *_, **__: None),
    ):
        yield


@contextmanager
def link_lost() -> Iterator[None]:
    """The merged entry stands there as if it had been uploaded so."""

    def unlinked(merged: Entry, sources: Sequence[Entry], *, before: str) -> Entry:
        return replace(merged, chain=sources[-1].chain)

    with unchecked(), patch.object(chain, "replacing", unlinked):
        yield


@contextmanager
def segment_dropped() -> Iterator[None]:
    """The last of a run is forgotten where the object is made, not where it is listed."""
    made = Merger._made

    async def forgetful(self: Merger, run: tuple[Entry, ...]) -> Merged | None:
        merged = await made(self, run[:-1] if len(run) > 2 else run)
        return None if merged is None else replace(merged, run=run)

    with unchecked(), patch.object(Merger, "_made", forgetful):
        yield


@contextmanager
def deleted_at_once() -> Iterator[None]:
    """Nothing refers to the old objects: what are they waiting for?"""
    listed = Merger._list

    async def tidy(self: Merger, merged: Merged) -> None:
        await listed(self, merged)
        await self._store.delete([Doomed(self._keys.full(one.key)) for one in merged.run])

    with patch.object(Merger, "_list", tidy):
        yield


PLANTED = {
    "the chain breaks": link_lost,
    "behind": segment_dropped,
    "was deleted": deleted_at_once,
}


@pytest.mark.parametrize("complaint", PLANTED)
def test_a_planted_bug_is_found(complaint: str) -> None:
    with PLANTED[complaint]():
        problems = tell(None).problems
    assert any(complaint in one for one in problems), problems


def test_without_their_checks_removed_the_bugs_do_not_reach_the_bucket() -> None:
    """The same two, and the checks before a publish in place: nothing is merged, nothing lost."""
    for bug in (link_lost, segment_dropped):
        with bug(), checked():
            problems = tell(None).problems
        assert all("nothing is merged" in one for one in problems), problems


@contextmanager
def checked() -> Iterator[None]:
    with (
        patch.object(replacing, "require_same", _REQUIRE_SAME),
        patch.object(chain, "replay", _REPLAY),
        patch("tierlog.cold.publisher.check", invariants.check),
    ):
        yield


_REQUIRE_SAME, _REPLAY = replacing.require_same, chain.replay
