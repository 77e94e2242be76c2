"""Legal disk states after power cuts: recovery keeps every promise in each of them."""

import logging

import pytest

from tests.powerloss.search import Found, search


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("tierlog.hot.recovery").setLevel(logging.ERROR)


def run(seeds: range) -> Found:
    found = search(seeds)
    assert not found.failures, "\n".join(found.failures)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 96, 12))
def test_recovery_holds_in_every_drawn_state(first: int) -> None:
    """Eight slices of at least 260 distinct states: more than 2,000 in all."""
    assert len(run(range(first, first + 12)).hashes) >= 260


def test_one_seed_of_power_cuts() -> None:
    assert len(run(range(1000, 1001)).hashes) >= 10
