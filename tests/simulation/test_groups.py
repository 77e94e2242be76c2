"""A consumer group keeps its word whatever happens to members, node and network: a few seeds."""

import pytest

from tests.simulation.groups import groups
from tierlog.sim.world import simulate


def run(seeds: range) -> None:
    assigned = [simulate(groups, seed=seed) for seed in seeds]
    assert min(assigned) >= 5, "the world was too cruel to test anything"


def test_a_group_shares_and_commits_without_faults() -> None:
    run(range(1))


def test_a_group_shares_and_commits() -> None:
    run(range(1, 3))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_a_group_always_shares_and_commits(first: int) -> None:
    run(range(first, first + 10))
