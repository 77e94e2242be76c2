"""A consumer group keeps its word whatever happens to members, node and network: a few seeds."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.simulation.groups import consumer_groups, groups
from tierlog.sim.world import SimWorld, simulate

Scenario = Callable[[SimWorld], Coroutine[Any, Any, int]]
protocols = pytest.mark.parametrize("scenario", [groups, consumer_groups])


def run(scenario: Scenario, seeds: range) -> None:
    assigned = [simulate(scenario, seed=seed) for seed in seeds]
    assert min(assigned) >= 5, "the world was too cruel to test anything"


@protocols
def test_a_group_shares_and_commits_without_faults(scenario: Scenario) -> None:
    run(scenario, range(1))


@protocols
def test_a_group_shares_and_commits(scenario: Scenario) -> None:
    run(scenario, range(1, 3))


@protocols
@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_a_group_always_shares_and_commits(first: int, scenario: Scenario) -> None:
    run(scenario, range(first, first + 10))
