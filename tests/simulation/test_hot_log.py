"""Acknowledged records survive whatever happens to the machine: a few seeds of the scenario."""

import pytest

from tests.simulation.hot_log import hot_log
from tierlog.sim.world import simulate


def run(seeds: range) -> None:
    shown = [simulate(hot_log, seed=seed) for seed in seeds]
    assert min(shown) > 20, "the world was too cruel to test anything"


def test_no_record_that_was_shown_is_lost() -> None:
    run(range(3))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5, 55, 10))
def test_no_record_that_was_shown_is_ever_lost(first: int) -> None:
    run(range(first, first + 10))
