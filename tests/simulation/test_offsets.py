"""Offsets of groups outlive their cluster: a few seeds."""

import pytest

from tests.simulation.offsets import offsets
from tierlog.sim.world import simulate


def run(seeds: range) -> int:
    """How many offsets were set back, in all of them."""
    return sum(simulate(offsets, seed=seed) for seed in seeds)


def test_offsets_come_back_without_faults() -> None:
    run(range(1))


def test_offsets_come_back() -> None:
    run(range(1, 3))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 200, 20))
def test_offsets_always_come_back(first: int) -> None:
    assert run(range(first, first + 20)) > 10, "hardly any offset pointed behind the records"
