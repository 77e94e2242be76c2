"""Legal disk states after power cuts: recovery keeps every promise in each of them."""

import logging

import pytest

from tests.powerloss.history import History
from tests.powerloss.search import STEPS, Found, search


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


def test_the_histories_meet_every_kind_of_trouble() -> None:
    histories = [History(seed) for seed in range(30)]
    for history in histories:
        history.run(STEPS)
    known = [history.known for history in histories]
    values = [value for one in known for value in one.records().values()]
    assert any(history.disk.boots for history in histories), "reboots"
    assert any(one.refused_end for one in known), "appends refused by a full disk"
    assert any(one.settings.flush_messages > 1 for one in known), "topics of the page cache"
    assert any(one.settings.log_append_time for one in known), "stamped batches"
    assert any(b"inside " in value for value in values), "batches inside of values"


def test_one_seed_of_power_cuts() -> None:
    assert len(run(range(1000, 1001)).hashes) >= 10
