"""Flips and truncations in each file of a log, alone and with a kill or a power cut."""

import pytest

from tests.damage.cases import search


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_damage_is_never_served_never_silent_and_never_spreads(first: int) -> None:
    ran, failures = search(range(first, first + 10))
    assert ran > 250
    assert not failures, "\n".join(failures)


def test_one_seed_of_every_damage() -> None:
    ran, failures = search(range(1000, 1001))
    assert ran > 20
    assert not failures, "\n".join(failures)
