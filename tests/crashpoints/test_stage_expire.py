"""Crash points of expiry and collection: a fixed spread of them, and proof that they find
something."""

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.crashpoints.bugs import Bug
from tests.crashpoints.expiry_bugs import BUGS
from tests.crashpoints.member import PLACES
from tests.crashpoints.points import End
from tests.crashpoints.stage_expire import TALE, tell
from tests.crashpoints.stages import EXPIRY
from tierlog.sim.storefaults import When

SAMPLE = 32
SLICES = 4


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_the_story_expires_and_collects_and_keeps_what_is_held() -> None:
    story = tell(None)
    assert not story.problems
    calls = Counter((point.stage, point.is_store) for point in story.gate.points)
    assert all(calls[stage, is_store] for stage in EXPIRY for is_store in (True, False))
    first, second = (story.ledger.head(place) for place in PLACES)
    assert first is not None
    assert second is not None
    assert first.log_start > 8, "all but the newest"
    assert (second.log_start, second.next_offset) == (2, 8), "the hold begins there"
    assert any("/page/" in key for key in story.bucket.deleted)


def test_the_sample_is_spread_over_stages_and_kinds() -> None:
    points = TALE.calls()
    assert len(TALE.shots()) >= 1000
    chosen = TALE.spread(SAMPLE)
    assert {points[shot.number].stage for shot in chosen} == set(EXPIRY)
    assert {shot.when for shot in chosen} == set(When)
    assert {shot.end for shot in chosen} == set(End)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLICES))
def test_nothing_is_lost_or_untold_wherever_it_stops(first: int) -> None:
    failed = TALE.failures(TALE.spread(SAMPLE)[first::SLICES])
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_story_finds_a_planted_bug(bug: Bug) -> None:
    with bug.plant():
        assert tell(None).problems
