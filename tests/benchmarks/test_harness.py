"""The arithmetic of the harness, on clocks that the tests move themselves."""

import gc
import math
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.harness import Comparison, Row, Sample, Size, Timer, Verdict


class Hands:
    """Wall and CPU time that move only when told."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0

    def timer(self) -> Timer:
        return Timer(wall=lambda: self.wall_s, cpu=lambda: self.cpu_s)

    def work(self, wall_s: float, cpu_s: float) -> None:
        self.wall_s += wall_s
        self.cpu_s += cpu_s


def size(tmp_path: Path, *, rounds: int = 7, measure_s: float = 0.0) -> Size:
    return Size(name="t", data_bytes=1, rounds=rounds, measure_s=measure_s, scratch=tmp_path)


def by_variant(rows: list[Row]) -> dict[str, Row]:
    return {row.variant: row for row in rows}


def test_ratio_is_speed_over_the_speed_of_the_baseline(tmp_path: Path) -> None:
    hands = Hands()
    comparison = Comparison(
        name="c",
        variants={"bare": lambda: hands.work(1, 1), "ours": lambda: hands.work(2, 4)},
        baseline="bare",
        units=10,
    )
    ours = by_variant(harness.run(comparison, size(tmp_path), timer=hands.timer()))["ours"]
    assert ours.ratio == harness.Spread(median=0.5, low=0.5, high=0.5)
    assert ours.cpu_ratio.median == 0.25
    assert ours.units_per_s.median == 5
    assert ours.rounds == 7


def test_one_spoilt_round_moves_the_spread_but_not_the_median(tmp_path: Path) -> None:
    hands = Hands()
    calls = iter(range(100))

    def ours() -> None:
        hands.work(100 if next(calls) == 3 else 1, 1)

    comparison = Comparison(
        name="c", variants={"bare": lambda: hands.work(1, 1), "ours": ours}, baseline="bare"
    )
    row = by_variant(harness.run(comparison, size(tmp_path), timer=hands.timer()))["ours"]
    assert (row.ratio.median, row.ratio.low, row.ratio.high) == (1.0, 0.01, 1.0)


def test_order_rotates_so_that_nobody_is_always_first(tmp_path: Path) -> None:
    hands = Hands()
    order: list[str] = []

    def variant(name: str) -> harness.Variant:
        def work() -> None:
            order.append(name)
            hands.work(1, 1)

        return work

    comparison = Comparison(name="c", variants={n: variant(n) for n in "abc"}, baseline="a")
    harness.run(comparison, size(tmp_path, rounds=3), timer=hands.timer())
    assert "".join(order[-9:]) == "abcbcacab"


def test_repetitions_grow_until_a_measurement_is_long_enough(tmp_path: Path) -> None:
    hands = Hands()
    comparison = Comparison(
        name="c",
        variants={"fast": lambda: hands.work(1e-5, 0), "slow": lambda: hands.work(1.0, 0)},
        baseline="slow",
    )
    rows = by_variant(harness.run(comparison, size(tmp_path, measure_s=0.02), timer=hands.timer()))
    assert rows["slow"].repetitions == 1
    assert 2000 <= rows["fast"].repetitions <= 20_000


def test_repetitions_stop_at_the_maximum_of_the_comparison(tmp_path: Path) -> None:
    comparison = Comparison(
        name="c", variants={"a": int, "b": int}, baseline="a", repetitions_max=5
    )
    rows = harness.run(comparison, size(tmp_path, measure_s=9), timer=Hands().timer())
    assert [row.repetitions for row in rows] == [5, 5]


@pytest.mark.parametrize(
    ("hold", "aim", "verdict"),
    [
        (None, None, Verdict.REPORT),
        (0.6, None, Verdict.MISSED),
        (0.5, 0.8, Verdict.HELD),
        (0.4, 0.5, Verdict.AIM),
    ],
)
def test_verdict_compares_the_median_with_hold_and_aim(
    tmp_path: Path, hold: float | None, aim: float | None, verdict: Verdict
) -> None:
    hands = Hands()
    comparison = Comparison(
        name="c",
        variants={"bare": lambda: hands.work(1, 1), "ours": lambda: hands.work(2, 2)},
        baseline="bare",
        hold=hold,
        aim=aim,
    )
    rows = by_variant(harness.run(comparison, size(tmp_path), timer=hands.timer()))
    assert rows["ours"].verdict is verdict
    assert rows["bare"].verdict is Verdict.BASELINE


def test_a_ratio_that_is_no_number_counts_as_missed(tmp_path: Path) -> None:
    nothing = Sample(units=math.nan, wall_s=1)
    comparison = Comparison(
        name="c",
        variants={"a": lambda: Sample(units=1, wall_s=1), "b": lambda: nothing},
        baseline="a",
        hold=0.1,
        self_timed=True,
    )
    assert by_variant(harness.run(comparison, size(tmp_path)))["b"].verdict is Verdict.MISSED


def test_self_timed_variants_bring_their_own_samples(tmp_path: Path) -> None:
    comparison = Comparison(
        name="c",
        variants={
            "bare": lambda: Sample(units=100, wall_s=2),
            "ours": lambda: Sample(units=30, wall_s=1),
        },
        baseline="bare",
        self_timed=True,
    )
    ours = by_variant(harness.run(comparison, size(tmp_path)))["ours"]
    assert ours.ratio.median == 0.6
    assert math.isnan(ours.cpu_ratio.median)


def test_garbage_collection_is_off_inside_and_as_before_outside(tmp_path: Path) -> None:
    seen: set[bool] = set()
    comparison = Comparison(
        name="c",
        variants={"a": lambda: seen.add(gc.isenabled()), "b": int},
        baseline="a",
    )
    assert gc.isenabled()
    harness.run(comparison, size(tmp_path))
    assert seen == {False}
    assert gc.isenabled()


def test_prepare_runs_untimed_before_each_measurement_and_close_even_after_a_failure(
    tmp_path: Path,
) -> None:
    hands = Hands()
    log: list[str] = []
    comparison = Comparison(
        name="c",
        variants={"a": lambda: hands.work(1, 1), "b": lambda: 1 // 0},
        baseline="a",
        prepare=lambda: hands.work(50, 50),
        close=lambda: log.append("closed"),
    )
    with pytest.raises(ZeroDivisionError):
        harness.run(comparison, size(tmp_path), timer=hands.timer())
    assert log == ["closed"]
    assert hands.wall_s == 101  # prepare, a, prepare; then b failed


def test_a_comparison_without_its_baseline_is_refused() -> None:
    with pytest.raises(ValueError, match="baseline"):
        Comparison(name="c", variants={"a": int, "b": int}, baseline="x")


def test_a_comparison_of_one_variant_is_refused() -> None:
    with pytest.raises(ValueError, match="beside"):
        Comparison(name="c", variants={"a": int}, baseline="a")


def test_only_the_full_sizes_call_their_figures_meaningful(tmp_path: Path) -> None:
    assert harness.full(tmp_path).is_full
    assert harness.quick(tmp_path).is_full
    assert not harness.smoke(tmp_path).is_full
