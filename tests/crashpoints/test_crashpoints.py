"""Crash points of the cold tier: a fixed spread of them, and proof that they find something."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crashpoints.bugs import BUGS, Bug
from tests.crashpoints.member import PLACES
from tests.crashpoints.notes import Notes, OtherStories
from tests.crashpoints.points import End, Shot
from tests.crashpoints.search import ROAD, TALES, all_jobs, parse_job, strewn, table, take
from tests.crashpoints.stages import STAGES
from tests.crashpoints.story import tell
from tests.crashpoints.tale import Case
from tierlog.cold.codec import decode_page
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.sim.storefaults import When

SAMPLE = 160
SLICES = 8


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def sample() -> list[Shot]:
    return ROAD.spread(SAMPLE)


def test_the_story_passes_through_every_stage() -> None:
    points = ROAD.points()
    calls = Counter((point.stage, point.is_store) for point in points)
    assert {stage for stage, _ in calls} == set(STAGES)
    for stage in ("claim", "publish", "drop", "repair", "restore"):
        assert calls[stage, False], f"{stage}: local files"
        assert calls[stage, True], f"{stage}: requests"
    written = Counter(point.what.split("/")[0] for point in points if point.is_store)
    assert {"begin_upload a-cluster", "put_part a-cluster", "complete_upload a-cluster"} <= set(
        written
    ), "objects in parts"
    assert len(ROAD.shots()) >= 1200


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
    assert {ROAD.calls()[shot.number].stage for shot in shots} == set(STAGES)
    assert {(shot.when, shot.end) for shot in shots} == {
        (when, end) for when in When for end in End
    }


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLICES))
def test_nothing_is_lost_wherever_it_stops(first: int) -> None:
    shots = sample()[first::SLICES]
    assert len(shots) == SAMPLE // SLICES
    failed = ROAD.failures(shots)
    assert not failed, "\n".join(failed)


def test_a_death_a_lost_answer_and_two_zombies() -> None:
    """One publish, in every kind: the rest of the sample is slow."""
    put = [point for point in ROAD.points() if point.stage == "publish" and "put" in point.what][3]
    failed = ROAD.failures([Shot(put.number, When.AMBIGUOUS, end) for end in End])
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_sample_finds_a_planted_bug(bug: Bug) -> None:
    points, shots = ROAD.calls(), sample()
    shots.sort(key=lambda shot: points[shot.number].stage not in bug.stages)
    with bug.plant():
        assert any(tell(shot).problems for shot in shots)


# The search over all stories


def test_all_stories_are_searched_and_have_more_than_a_thousand_cases() -> None:
    jobs = all_jobs(None)
    assert {job.tale for job in jobs} == set(TALES)
    assert len(set(jobs)) == len(jobs) >= 1200
    staged = [(name, stage) for name, tale in TALES.items() for stage in tale.stages]
    assert len({stage for _, stage in staged}) == len(staged), "a stage is told of once"
    few = all_jobs(40)
    assert {job.tale for job in few} == set(TALES)
    assert len(few) <= 40


def test_a_failure_names_the_command_that_replays_it_and_counts_in_the_table() -> None:
    (job,) = [parse_job(f"{name}:{shot}") for name, shot in all_jobs(4)[:1]]
    case = take(job)
    assert not case.problems
    failed = case._replace(problems=["it is lost"])
    assert f"--shot {job.tale}:{job.shot}" in str(failed)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table([case, failed])]
    taken = {tuple(row[:3]): row[-2:] for row in rows[2:]}
    kind = "store" if case.point.is_store else "disk"
    assert taken.pop((case.tale, case.point.stage, kind)) == ["2", "1"]
    assert taken.pop(("all", "", "")) == ["2", "1"]
    assert set(map(tuple, taken.values())) == {("0", "0")}


def test_a_search_that_is_cut_off_goes_on_with_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    first, second = (job for job in strewn(all_jobs(None))[:2])
    notes = Notes(path, TALES.values())
    notes.add(Case(first.tale, first.shot, TALES[first.tale].calls()[first.shot.number], []))
    with path.open("a") as file:
        file.write('["road", "1:bef')  # Killed in the middle of it.
    again = Notes(path, TALES.values())
    assert again.cases == notes.cases
    assert first in again.taken
    assert second not in again.taken
    again.add(Case(second.tale, second.shot, TALES[second.tale].calls()[second.shot.number], ["x"]))
    assert Notes(path, TALES.values()).cases == again.cases
    path.write_text(path.read_text().replace(path.read_text()[0], "x", 1))
    with pytest.raises(OtherStories, match="begin anew"):
        Notes(path, TALES.values())
