"""The metastore keeps its word whatever happens to the machine: a few seeds of the scenario."""

import pytest

from tests.simulation.metastore import metastore
from tierlog.sim.world import simulate


def run(seeds: range) -> None:
    told = [simulate(metastore, seed=seed) for seed in seeds]
    assert min(told) > 20, "the world was too cruel to test anything"


def test_the_store_is_always_a_prefix_that_holds_what_was_told() -> None:
    run(range(2))


@pytest.mark.slow
def test_the_store_is_ever_a_prefix_that_holds_what_was_told() -> None:
    run(range(5, 45))
