"""Holds that were told are kept, whatever fails around them: a few seeds."""

import pytest

from tests.simulation.holds import holds
from tierlog.sim.world import simulate


def run(seeds: range) -> int:
    """How many holds were told of, in all of them."""
    return sum(simulate(holds, seed=seed) for seed in seeds)


def test_holds_are_kept_without_faults() -> None:
    assert run(range(1)) > 10


def test_holds_are_kept() -> None:
    assert run(range(1, 3)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 200, 20))
def test_holds_are_always_kept(first: int) -> None:
    assert run(range(first, first + 20)) > 200
