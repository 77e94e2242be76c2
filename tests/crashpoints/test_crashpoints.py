"""Crash points of the cold tier: a fixed spread of them, and proof that they find something."""

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.crashpoints.bugs import BUGS, Bug
from tests.crashpoints.member import PLACES
from tests.crashpoints.points import End, Shot, all_shots
from tests.crashpoints.search import known_points, spread, take
from tests.crashpoints.stages import STAGES
from tests.crashpoints.story import tell
from tierlog.cold.codec import decode_page
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.sim.storefaults import When

SAMPLE = 192
SLICES = 8


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def sample() -> list[Shot]:
    return spread(all_shots(known_points()), SAMPLE)


def test_the_story_passes_through_every_stage() -> None:
    points = known_points()
    calls = Counter((point.stage, point.is_store) for point in points)
    assert {stage for stage, _ in calls} == set(STAGES)
    for stage in ("claim", "publish", "drop", "repair", "restore"):
        assert calls[stage, False], f"{stage}: local files"
        assert calls[stage, True], f"{stage}: requests"
    written = Counter(point.what.split("/")[0] for point in points if point.is_store)
    assert {"begin_upload a-cluster", "put_part a-cluster", "complete_upload a-cluster"} <= set(
        written
    ), "objects in parts"
    assert len(all_shots(points)) >= 800


def test_leaf_and_index_pages_are_sealed_and_replaced() -> None:
    story, place = tell(None), PLACES[0]
    head = story.ledger.head(place)
    assert head is not None
    assert head.leaves
    assert head.indexes
    items = story.bucket.shelf.items
    replaced = [
        decode_page(items[place.keys.full(one.key)].data, key=one.key) for one in head.garbage
    ]
    assert {type(page) for page in replaced} == {LeafPage, IndexPage}


def test_the_sample_is_spread_over_stages_and_kinds() -> None:
    shots = sample()
    assert len(set(shots)) == SAMPLE
    assert {known_points()[shot.number].stage for shot in shots} == set(STAGES)
    assert {(shot.when, shot.end) for shot in shots} == {
        (when, end) for when in When for end in End
    }


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLICES))
def test_nothing_is_lost_wherever_it_stops(first: int) -> None:
    cases = [take(shot) for shot in sample()[first::SLICES]]
    assert len(cases) == SAMPLE // SLICES
    failed = [str(case) for case in cases if case.problems]
    assert not failed, "\n".join(failed)


def test_a_death_a_lost_answer_and_two_zombies() -> None:
    """One publish, in every kind: the rest of the sample is slow."""
    put = [point for point in known_points() if point.stage == "publish" and "put" in point.what][3]
    for end in End:
        case = take(Shot(put.number, When.AMBIGUOUS, end))
        assert not case.problems, str(case)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_sample_finds_a_planted_bug(bug: Bug) -> None:
    points, shots = known_points(), sample()
    shots.sort(key=lambda shot: points[shot.number].stage not in bug.stages)
    with bug.plant():
        assert any(tell(shot).problems for shot in shots)
