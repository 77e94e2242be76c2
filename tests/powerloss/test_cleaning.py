"""A cleaning that loses power at any of its operations: nothing is lost, nothing comes back."""

import logging
from collections.abc import Iterator

import pytest

from tests.powerloss.cleaning import Found, search_seed


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def run(seeds: range, *, every: int = 1) -> Found:
    total = Found()
    for seed in seeds:
        found = search_seed(seed, every=every)
        assert not found.failures, found.failures[0]
        total.hashes |= found.hashes
    return total


def test_some_operations_of_a_cleaning_are_cut() -> None:
    assert len(run(range(1), every=17).hashes) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_every_third_operation_of_a_cleaning_is_cut(seed: int) -> None:
    """Of about 470 each; `python -m tests.powerloss.cleaning` takes them all."""
    assert len(run(range(seed, seed + 1), every=3).hashes) >= 150
