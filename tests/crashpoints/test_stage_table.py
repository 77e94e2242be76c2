"""Crash points of the table: a spread of them, and proof that they find something."""

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.crashpoints.points import End, Shot
from tests.crashpoints.stage_table import TALE, tell
from tierlog.sim.storefaults import When
from tierlog.table.changes import Append
from tierlog.table.keys import file_key
from tierlog.table.making import FileMaker
from tierlog.table.manifest import Table
from tierlog.table.publisher import Change, Draft, TablePublisher
from tierlog.table.workshop import Workshop
from tierlog.types import LeaderEpoch, Offset

SAMPLE = 16
SLICES = 4


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_the_story_passes_through_the_whole_of_a_conversion() -> None:
    calls = Counter(point.what.split(" ")[0] for point in TALE.points())
    assert {"get", "head", "put_if_absent", "put_if_match", "pwrite", "unlink"} <= set(calls)
    assert len(TALE.shots()) >= 500


@pytest.mark.slow
def test_a_death_a_lost_answer_and_two_zombies_at_the_commit_of_a_conversion() -> None:
    point = next(one for one in TALE.points() if one.what.startswith("put_if_match"))
    failed = TALE.failures([Shot(point.number, When.AMBIGUOUS, end) for end in End])
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLICES))
def test_a_table_is_right_wherever_its_making_stops(first: int) -> None:
    failed = TALE.failures(TALE.spread(SAMPLE)[first::SLICES])
    assert not failed, "\n".join(failed)


# Planted: each undoes the checks before a publish as well, which alone would refuse it.


def unchecked() -> AbstractContextManager[object]:
    return patch("tierlog.table.publisher.check", lambda *_, **__: None)


@contextmanager
def gap_left() -> Iterator[None]:
    """The watermark moves on by a record too many, and the next file begins there."""
    listed = Append.__call__

    async def hasty(self: Append, table: Table | None) -> Draft | None:
        draft = await listed(self, table)
        if draft is None:
            return None
        end = type(draft.table.converted_end)(draft.table.converted_end + 1)
        return replace(draft, table=replace(draft.table, converted_end=end))

    with unchecked(), patch.object(Append, "__call__", hasty):
        yield


@contextmanager
def overwritten() -> Iterator[None]:
    """Keys say what they cover, and nothing else: the next try takes the same."""

    def plain(self: FileMaker, start: Offset, end: Offset, *, is_dead: bool = False) -> str:
        epoch = LeaderEpoch(0)
        return file_key(
            start=start, end=end, leader_epoch=epoch, node=0, attempt=0, is_dead=is_dead
        )

    with patch.object(FileMaker, "_new_key", plain), put_anyway():
        yield


@contextmanager
def put_anyway() -> Iterator[None]:
    """Whatever stands there is replaced."""
    from tierlog.sim.objectstore import SimStore

    absent = SimStore.put_if_absent

    async def replaced(self: SimStore, key: str, body: object) -> object:
        if "/pq/" in key:
            return await self.put(key, body)  # type: ignore[arg-type]
        return await absent(self, key, body)  # type: ignore[arg-type]

    with patch.object(SimStore, "put_if_absent", replaced):
        yield


@contextmanager
def listed_first() -> Iterator[None]:
    """The file is sent when TABLE lists it: nobody will look so soon."""
    later: list[tuple[object, ...]] = []
    send, commit = Workshop.send, TablePublisher.commit

    async def put_off(self: Workshop, *args: object) -> None:
        later.append((self, *args))

    async def commit_and_send(self: TablePublisher, change: Change) -> Table | None:
        table = await commit(self, change)
        while later:
            await send(*later.pop())  # type: ignore[arg-type]
        return table

    async def keep(self: Workshop, *paths: str) -> None:
        """The local files are still needed."""

    with (
        patch.object(Workshop, "send", put_off),
        patch.object(Workshop, "clear", keep),
        patch.object(TablePublisher, "commit", commit_and_send),
    ):
        yield


PLANTED = {
    "not all that is cold": gap_left,
    "was written twice": overwritten,
    "not there": listed_first,
}


@pytest.mark.parametrize("complaint", PLANTED)
def test_a_planted_bug_is_found(complaint: str) -> None:
    with PLANTED[complaint]():
        problems = _after_a_death() if complaint == "was written twice" else tell(None).problems
    assert any(complaint in one for one in problems), problems


def _after_a_death() -> list[str]:
    """The file is in the bucket and not in TABLE when its writer dies."""
    calls = tell(None).gate.points
    sent = next(
        point
        for point in calls
        if (point.stage == "convert" and point.what.startswith("put_if_absent"))
        or "/pq/" in point.what
    )
    return tell(Shot(sent.number, When.AMBIGUOUS, End.DIES)).problems


def test_without_its_check_removed_a_gap_does_not_reach_the_bucket() -> None:
    from tierlog.table import invariants

    with gap_left(), patch("tierlog.table.publisher.check", invariants.check):
        problems = tell(None).problems
    assert problems
    assert all("lags behind: ['tiling" in one for one in problems), problems
