"""Compacted logs keep what they must, whatever happens to the machine: a few seeds."""

import pytest

from tests.simulation.cleaner import cleaner
from tierlog.sim.world import simulate


def run(seeds: range) -> None:
    rounds = [simulate(cleaner, seed=seed) for seed in seeds]
    assert min(rounds) > 5, "the world was too cruel to clean anything"


def test_no_last_value_is_lost() -> None:
    run(range(2, 4))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5, 25, 10))
def test_no_last_value_is_ever_lost(first: int) -> None:
    run(range(first, first + 10))
