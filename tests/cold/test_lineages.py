"""Whose word counts where objects tell different leaders for the same offsets."""

from tierlog.cold.lineages import Dissent, History
from tierlog.hot.epochs import EpochStart
from tierlog.types import LeaderEpoch, Offset


def add(history: History, end: int, *lineage: tuple[int, int]) -> Dissent | None:
    starts = [EpochStart(LeaderEpoch(epoch), Offset(start)) for epoch, start in lineage]
    return history.add(starts, Offset(end))


def test_cuts_of_one_history_agree() -> None:
    history = History()
    assert add(history, 30, (3, 0), (4, 10)) is None
    assert add(history, 20, (3, 0), (4, 10)) is None
    assert add(history, 10, (3, 0)) is None
    assert add(history, 45, (3, 0), (4, 10), (5, 33)) is None
    assert add(history, 40, (4, 12), (5, 33)) is None, "what was trimmed says nothing"


def test_offsets_that_a_later_leader_wrote_are_not_an_earlier_ones() -> None:
    history = History()
    assert add(history, 30, (3, 0), (4, 10)) is None
    assert add(history, 30, (3, 0)) == (10, 4)
    assert add(history, 60, (3, 0)) == (10, 4)
    assert add(history, 10, (3, 0)) is None


def test_what_lies_in_a_gap_is_judged_by_the_lineage_behind_it() -> None:
    history = History()
    assert add(history, 30, (3, 0), (4, 10)) is None, "an object of 20 to 29; 10 to 19 is lost"
    assert add(history, 20, (3, 0)) == (10, 4)


def test_epochs_do_not_fall_where_lineages_do_not_meet() -> None:
    history = History()
    assert add(history, 30, (4, 20)) is None
    assert add(history, 50, (3, 40)) == (40, 4)
    assert add(history, 10, (5, 0)) == (0, 4)
    assert add(history, 10, (2, 0)) is None
    assert add(history, 18, (3, 15)) is None, "nothing is known between two stretches"
    assert add(history, 20, (2, 0), (3, 12)) is None
    assert add(history, 20, (2, 0), (4, 16)) == (12, 3)


def test_an_object_without_a_lineage_says_nothing() -> None:
    assert add(History(), 10) is None
