"""Rounds: evenly spread, in order, and not in a hurry after a pause."""

from itertools import pairwise
from math import inf

import pytest

from tierlog.cold.scrubround import At, Round, from_value, to_value

DAY = 86_400_000
PLACES = [("b", 0), ("a", 1), ("a", 0)]


def test_a_round_visits_every_partition_in_order_and_begins_anew() -> None:
    one, seen = Round(), []
    while (at := one.choose(PLACES)) is not None:
        seen.append(at.place)
        one.pass_by(at, units=1)
    assert seen == sorted(PLACES)
    one.finish(5)
    assert (one.done, one.finished, one.begun_ms) == (0, 1, 5)
    assert one.choose(PLACES) == At("a", 0, 0)


def test_work_is_due_evenly_over_the_period() -> None:
    one, now, moments = Round(), 1_000, []
    for _ in range(1000):
        now = max(now, int(one.due_ms(now, total=1000, period_ms=DAY)) + 1)
        moments.append(now)
        one.move(At("a", 0, 0), units=1)
    gaps = {later - earlier for earlier, later in pairwise(moments)}
    assert max(gaps) <= DAY / 1000 + 2
    assert moments[-1] - moments[0] == pytest.approx(DAY, rel=0.01)


def test_who_was_away_for_days_does_not_make_up_for_it_at_once() -> None:
    one = Round()
    one.due_ms(0, total=1000, period_ms=DAY)
    now, count = 5 * DAY, 0
    while one.due_ms(now, total=1000, period_ms=DAY) <= now:
        one.move(At("a", 0, 0), units=1)
        count += 1
    assert count <= 20


def test_a_clock_that_was_set_back_does_not_stop_a_round() -> None:
    one = Round()
    one.due_ms(10 * DAY, total=10, period_ms=DAY)
    one.move(At("a", 0, 0), units=5)
    assert one.due_ms(0, total=10, period_ms=DAY) <= DAY / 10


def test_nothing_is_due_where_there_is_nothing() -> None:
    assert Round().due_ms(5, total=0, period_ms=DAY) == inf
    assert Round().choose([]) is None


def test_a_partition_that_is_gone_is_passed_by() -> None:
    one = Round()
    one.move(At("a", 1, 77), units=1)
    assert one.choose(PLACES) == At("a", 1, 77)
    assert one.choose([("b", 0)]) == At("b", 0, 0)


@pytest.mark.parametrize(
    "value", [None, 1, {}, {"begun_ms": 1}, {**to_value(Round()), "done": "x"}]
)
def test_what_makes_no_sense_is_a_new_round(value: object) -> None:
    assert from_value(value) == Round()


def test_a_round_comes_back_as_it_was() -> None:
    one = Round(5, 2.5, "a", 3, 77, 4)
    assert from_value(to_value(one)) == one
