"""Break-even along an input."""

import pytest

from cost_model import InvalidScenario, from_dict, plan
from cost_model.breakeven import break_even, first_crossing
from cost_model.errors import NoBreakEven
from cost_model.presets import PRESETS
from cost_model.read import with_input
from cost_model.units import DAY, YEAR
from tests.cost_model.support import QUIET

FLAT = {
    "workload": {"write": "50 MB/s", "retention": "1 year"},
    "reads": {"replay_from": "segments"},
    "parquet": {"enabled": False},
}
STANDARD = from_dict(FLAT | {"name": "standard", "tiering": QUIET})
IA = from_dict(FLAT | {"name": "ia", "tiering": {"classes": "STANDARD_IA", **QUIET}})


def test_both_plans_cost_the_same_at_the_break_even() -> None:
    curve = break_even(STANDARD, IA, path="reads.replay", low=1e12, high=1e16)
    at = first_crossing(curve)
    ours, theirs = (
        float(plan(with_input(each, "reads.replay", at)).total) for each in (STANDARD, IA)
    )
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert curve.cheaper_at(0) == "ia"
    assert curve.cheaper_at(-1) == "standard"


def test_ia_and_standard_meet_at_about_a_full_scan_a_month() -> None:
    # 1.05 at the first volume tier; at this size most bytes are in cheaper tiers.
    curve = break_even(STANDARD, IA, path="reads.replay", low=1e12, high=1e16)
    scans = first_crossing(curve) / (50e6 * YEAR)
    assert 0.8 < scans < 1.05


def test_the_curve_is_the_bill_at_every_point() -> None:
    curve = break_even(STANDARD, PRESETS["kafka"], path="workload.retention", low=DAY, high=YEAR)
    for at in (0, 64, 128):
        mine = with_input(STANDARD, "workload.retention", curve.at[at])
        assert curve.usd[0][at] == pytest.approx(float(plan(mine).total))
        assert curve.usd[1][at] == pytest.approx(float(plan(PRESETS["kafka"](mine)).total))


def test_a_crossing_on_a_step_is_the_step() -> None:
    few = from_dict({"name": "few", "cluster": {"brokers": 3}})
    sized = from_dict({"name": "sized"})
    curve = break_even(sized, few, path="workload.write", low=1e6, high=1e9)
    below, above = (
        float(plan(with_input(sized, "workload.write", at)).total)
        - float(plan(with_input(few, "workload.write", at)).total)
        for at in (first_crossing(curve) * 0.999, first_crossing(curve) * 1.001)
    )
    assert below == pytest.approx(0, abs=1e-6)
    assert above > 0


def test_a_whole_number_stays_whole() -> None:
    # Large segments save requests, and cost disk for every partition's active one.
    one, small = (
        from_dict({"cluster": {"brokers": 3}, "tiering": {"segment": size, "roll": "7 d"}})
        for size in ("1 GiB", "16 MiB")
    )
    curve = break_even(one, small, path="workload.partitions", low=1, high=5000)
    assert all(each == int(each) for each in (*curve.at, *curve.crossings))
    at = first_crossing(curve)
    gaps = [
        plan(with_input(one, "workload.partitions", count)).total
        - plan(with_input(small, "workload.partitions", count)).total
        for count in (at - 1, at)
    ]
    assert (gaps[0] > 0) != (gaps[1] > 0)


def test_plans_that_never_meet_are_told() -> None:
    dearer = with_input(STANDARD, "cluster.operations", 1000.0)
    curve = break_even(STANDARD, dearer, path="reads.replay", low=0, high=1e15)
    assert curve.crossings == []
    with pytest.raises(NoBreakEven, match=r"standard costs less at every reads\.replay"):
        first_crossing(curve)


def test_an_input_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidScenario, match=r"cluster\.disk: is not a number"):
        break_even(STANDARD, IA, path="cluster.disk", low=1, high=2)


def test_a_range_that_does_not_rise_is_refused() -> None:
    with pytest.raises(InvalidScenario, match="must rise"):
        break_even(STANDARD, IA, path="reads.replay", low=2, high=1)


def test_a_plan_beside_itself_costs_the_same() -> None:
    curve = break_even(STANDARD, STANDARD, path="workload.retention", low=DAY, high=YEAR)
    assert curve.is_level
    assert curve.cheaper_at(0) == "neither"
    with pytest.raises(NoBreakEven, match="both cost the same"):
        first_crossing(curve)
