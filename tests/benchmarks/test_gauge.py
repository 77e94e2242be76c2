"""Figures are compared round by round, and judged from the side their promise names."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.gauge import Figures, Gauge, Promise, Reading, measure, run_all
from benchmarks.harness import Verdict


@pytest.fixture
def size(tmp_path: Path) -> harness.Size:
    return harness.quick(tmp_path)


def scripted(*values: float) -> Callable[[], Figures]:
    left = iter(values)
    return lambda: {"s": next(left)}


def steady(value: float) -> Callable[[], Figures]:
    return lambda: {"s": value}


def only(readings: list[Reading], variant: str) -> Reading:
    return next(each for each in readings if each.variant == variant)


def test_ratios_are_taken_within_a_round(size: harness.Size) -> None:
    gauge = Gauge(
        name="g",
        # Both slow down together: each round says 2, though the medians say otherwise.
        variants={
            "theirs": scripted(1, 5, 9, 1, 1, 9, 9),
            "ours": scripted(2, 10, 18, 2, 2, 18, 18),
        },
        baseline="theirs",
        promises={"s": Promise()},
    )
    ours = only(measure(gauge, size), "ours")
    assert ours.ratio is not None
    assert (ours.ratio.median, ours.ratio.low, ours.ratio.high) == (2, 2, 2)
    assert (ours.value.low, ours.value.high) == (2, 18)


@pytest.mark.parametrize(
    ("is_speed", "value", "verdict"),
    [
        (True, 0.4, Verdict.MISSED),
        (True, 0.6, Verdict.HELD),
        (True, 0.9, Verdict.AIM),
        (True, float("nan"), Verdict.MISSED),
    ],
)
def test_speeds_are_held_from_below(is_speed: bool, value: float, verdict: Verdict) -> None:
    assert Promise(hold=0.5, aim=0.8, is_speed=is_speed).verdict(value) is verdict


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (6.0, Verdict.MISSED),
        (4.0, Verdict.HELD),
        (1.0, Verdict.AIM),
        (float("nan"), Verdict.MISSED),
    ],
)
def test_all_else_is_held_from_above(value: float, verdict: Verdict) -> None:
    assert Promise(hold=5.0, aim=2.0).verdict(value) is verdict


def test_without_a_hold_nothing_is_missed() -> None:
    assert Promise(aim=2.0).verdict(9.0) is Verdict.REPORT
    assert Promise().verdict(9.0) is Verdict.REPORT


def test_without_a_baseline_the_value_itself_is_judged(size: harness.Size) -> None:
    gauge = Gauge(name="g", variants={"ours": steady(3)}, promises={"s": Promise(hold=2)})
    (reading,) = measure(gauge, size)
    assert reading.ratio is None
    assert reading.verdict is Verdict.MISSED
    assert "3.00, hold 2" in reading.missed_sentence()


def test_variants_take_turns_in_going_first(size: harness.Size) -> None:
    seen: list[str] = []

    def noting(name: str) -> Callable[[], Figures]:
        def note() -> Figures:
            seen.append(name)
            return {"s": 1.0}

        return note

    gauge = Gauge(
        name="g",
        variants={"a": noting("a"), "b": noting("b")},
        promises={"s": Promise()},
        rounds=2,
    )
    measure(gauge, size)
    assert seen == ["a", "b", "b", "a"]


def test_a_baseline_that_is_no_variant_is_refused() -> None:
    with pytest.raises(ValueError, match="no variant is called 'x'"):
        Gauge(name="g", variants={"a": steady(1)}, promises={}, baseline="x")


def test_a_generator_is_closed_when_a_gauge_fails(size: harness.Size) -> None:
    closed = []

    def fails() -> Figures:
        raise RuntimeError("the server died")

    def module() -> Iterator[Gauge]:
        try:
            yield Gauge(name="g", variants={"a": fails}, promises={"s": Promise()})
        finally:
            closed.append(True)

    with pytest.raises(RuntimeError, match="the server died"):
        run_all(module(), size)
    assert closed
