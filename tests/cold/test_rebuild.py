"""Which of the segments that are there make a manifest."""

from tierlog.cold.layout import SegmentName
from tierlog.cold.rebuild import Candidate, best_run
from tierlog.types import LeaderEpoch, Offset


def run(*ranges: tuple[int, int]) -> list[tuple[int, int]]:
    found = [
        Candidate(str(number), SegmentName(Offset(base), Offset(last), LeaderEpoch(1), 1, 7), 10)
        for number, (base, last) in enumerate(ranges)
    ]
    return [(one.name.base, one.name.last) for one in best_run(found)]


def test_segments_in_a_row_are_all_taken() -> None:
    assert run((10, 19), (0, 9), (20, 29)) == [(0, 9), (10, 19), (20, 29)]


def test_of_two_cuts_the_one_that_leads_further_is_taken() -> None:
    assert run((0, 9), (0, 14), (10, 19), (20, 29)) == [(0, 9), (10, 19), (20, 29)]
    assert run((0, 9), (0, 14), (15, 40), (10, 19)) == [(0, 14), (15, 40)]


def test_a_copy_is_taken_once() -> None:
    assert run((0, 9), (0, 9), (10, 19)) == [(0, 9), (10, 19)]


def test_of_two_that_lead_as_far_the_later_leaders_is_taken() -> None:
    found = [
        Candidate(key, SegmentName(Offset(0), Offset(9), LeaderEpoch(epoch), 1, 7), 10)
        for key, epoch in (("b", 9), ("a", 10), ("c", 3))
    ]
    assert [one.key for one in best_run(found)] == ["a"]


def test_behind_a_gap_the_next_is_taken_and_no_overlap() -> None:
    assert run((0, 9), (5, 14), (20, 29), (25, 40)) == [(0, 9), (20, 29)]


def test_nothing_makes_nothing() -> None:
    assert run() == []
