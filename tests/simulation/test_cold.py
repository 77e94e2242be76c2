"""A history that leaves the disk is the same history, whatever happens to store and machine: a few
seeds."""

import pytest

from tests.simulation.cold import cold
from tierlog.sim.replay import run_seed
from tierlog.sim.world import simulate

NAME = "tests.simulation.cold:cold"


def run(seeds: range) -> None:
    for seed in seeds:
        simulate(cold, seed=seed)


def test_cold_is_invisible_without_faults() -> None:
    assert simulate(cold, seed=0) > 70, "nothing kept anybody from writing"


def test_cold_is_invisible_under_a_faulty_store() -> None:
    run(range(1, 2))


def test_a_store_that_lies_loses_nothing() -> None:
    run(range(3, 4))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_nothing_published_is_ever_lost(first: int) -> None:
    run(range(first, first + 10))


@pytest.mark.slow
def test_a_seed_is_the_same_history_every_time() -> None:
    one, other = (run_seed(NAME, 7).trace_hash for _ in range(2))
    assert one == other
