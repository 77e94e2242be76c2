"""Monte Carlo: reproducible, vectorised, fair to both plans."""

import time

import numpy as np
import pytest

from cost_model import InvalidScenario, from_dict, plan
from cost_model.montecarlo import draw, duel, montecarlo
from cost_model.presets import preset
from cost_model.read import with_input

UNSURE = from_dict(
    {
        "workload": {"write": "30 MB/s", "retention": "1 year"},
        "uncertainty": {
            "workload.write": {"low": "20 MB/s", "mode": "30 MB/s", "high": "60 MB/s"},
            "workload.groups": {"low": 1, "high": 5},
            "workload.partitions": {"low": 50, "high": 500},
            "reads.replay": {"low": "1 TB", "high": "50 TB", "shape": "lognormal"},
            "prices.transfer.cross_zone": {"low": 0.005, "mode": 0.01, "high": 0.011},
        },
    }
)


def test_one_seed_gives_one_answer() -> None:
    first, second, other = (montecarlo(UNSURE, count=500, seed=seed) for seed in (7, 7, 8))
    assert (first.usd == second.usd).all()
    assert not (first.usd == other.usd).all()


def test_percentiles_are_in_order_and_around_the_bill_of_the_middle() -> None:
    outcome = montecarlo(UNSURE)
    low, middle, high = (outcome.percentile(each) for each in (10, 50, 90))
    assert low < middle < high
    assert low < float(plan(UNSURE).total) < high


def test_each_draw_is_the_bill_of_its_values() -> None:
    draws = draw(UNSURE.uncertainty, count=200, seed=3)
    usd = montecarlo(UNSURE, count=200, seed=3).usd
    for at in (0, 99, 199):
        alone = UNSURE
        for path, values in draws.items():
            alone = with_input(alone, path, float(values[at]))
        assert usd[at] == pytest.approx(float(plan(alone).total))


def test_draws_stay_in_their_range_and_whole_where_they_must() -> None:
    draws = draw(UNSURE.uncertainty, count=5000, seed=1)
    write = draws["workload.write"]
    assert 20e6 <= write.min() < 25e6
    assert 50e6 < write.max() <= 60e6
    partitions = draws["workload.partitions"]
    assert (partitions == np.rint(partitions)).all()
    replay = draws["reads.replay"]
    assert np.mean(replay < 1e12) == pytest.approx(0.1, abs=0.02)
    assert np.mean(replay > 50e12) == pytest.approx(0.1, abs=0.02)


def test_two_plans_meet_under_the_same_draws() -> None:
    ours, same = duel(UNSURE, UNSURE, count=300)
    assert (ours.usd == same.usd).all()
    assert ours.beats(same) == 0
    kafka = preset("kafka", UNSURE)
    mine, theirs = duel(UNSURE, kafka, count=300)
    assert mine.beats(theirs) == 1
    assert theirs.beats(mine) == 0


def test_a_plan_that_depends_on_nothing_unsure_still_has_a_bill_for_every_draw() -> None:
    made = from_dict({"uncertainty": {"reads.hot_set": {"low": "1 GB", "high": "2 GB"}}})
    assert montecarlo(made, count=100).usd.shape == (100,)


def test_a_range_of_one_value_is_that_value() -> None:
    made = from_dict({"uncertainty": {"workload.peak": {"low": 2, "high": 2}}})
    assert set(draw(made.uncertainty, count=5, seed=1)["workload.peak"]) == {2.0}


def test_without_ranges_what_people_guess_varies_by_a_fifth_and_that_is_said() -> None:
    made = from_dict({"workload": {"compression": 1}})
    found = montecarlo(made, count=2000)
    (said,) = found.notes
    assert "workload.write" in said
    assert "uncertainty: {workload.write: {low: 20 MB/s" in said
    # Half a range would shift the middle: compression cannot go below 1.
    assert "compression" not in said
    assert found.percentile(50) == pytest.approx(float(plan(made).total), rel=0.05)
    assert duel(made, made, count=500)[0].notes == found.notes


def test_draws_beyond_what_an_input_may_be_are_set_to_its_end_and_that_is_said() -> None:
    made = from_dict(
        {
            "uncertainty": {
                "workload.compression": {"low": 1.1, "high": 4, "shape": "lognormal"},
                "reads.tail_miss": {"low": 0.2, "high": 0.9, "shape": "lognormal"},
                "workload.partitions": {"low": 1, "high": 20, "shape": "lognormal"},
            }
        }
    )
    draws = draw(made.uncertainty, count=5000, seed=3)
    assert draws["workload.compression"].min() == 1
    assert draws["reads.tail_miss"].max() == 1
    assert draws["workload.partitions"].min() == 1
    said = montecarlo(made, count=5000, seed=3).notes
    assert any("workload.compression lay beyond 1" in each for each in said)
    assert any("reads.tail_miss lay beyond 1" in each for each in said)


def test_draws_that_stay_inside_are_left_in_peace() -> None:
    row = {"low": "5 MB/s", "high": "20 MB/s", "shape": "lognormal"}
    made = from_dict({"uncertainty": {"workload.write": row}})
    assert montecarlo(made, count=500).notes == ()


def test_a_lognormal_range_starts_above_zero() -> None:
    made = from_dict(
        {"uncertainty": {"reads.replay": {"low": "0 B", "high": "1 TB", "shape": "lognormal"}}}
    )
    with pytest.raises(InvalidScenario, match="more than 0"):
        montecarlo(made)


def test_ten_thousand_draws_take_less_than_a_second() -> None:
    started = time.process_time()
    montecarlo(UNSURE, count=10_000)
    assert time.process_time() - started < 1
