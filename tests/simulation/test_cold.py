"""A history that leaves the disk is the same history, whatever happens to store and machine: a few
seeds."""

from collections import Counter
from itertools import combinations

import pytest

from tests.simulation.cold import cold
from tests.simulation.cold_tally import FEATURES, share
from tierlog.sim.replay import run_seed
from tierlog.sim.world import simulate

NAME = "tests.simulation.cold:cold"


def run(seeds: range) -> list[Counter[str]]:
    return [simulate(cold, seed=seed) for seed in seeds]


def test_cold_is_invisible_without_faults() -> None:
    (happened,) = run(range(1))
    assert happened["acknowledged"] > 70, "nothing kept anybody from writing"


def test_cold_is_invisible_under_a_faulty_store() -> None:
    run(range(1, 2))


def test_a_store_that_lies_loses_nothing() -> None:
    run(range(3, 4))


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 50])
def test_nothing_published_is_ever_lost(first: int) -> None:
    """Nor is anything that went kept, nor taken that should stay; and all of it really happens."""
    tallies = run(range(first, first + 50))
    shares = {name: share(tallies, name) for name in FEATURES}
    assert min(shares.values()) >= 0.05, f"hardly ever: {shares}"
    for one, other in combinations(("merges", "expiries", "sweeps", "scrubs", "restores"), 2):
        assert share(tallies, one, other) >= 0.05, f"{one} and {other} hardly ever meet"


@pytest.mark.slow
def test_a_seed_is_the_same_history_every_time() -> None:
    one, other = (run_seed(NAME, 7).trace_hash for _ in range(2))
    assert one == other
