"""A node keeps its word to its clients whatever happens to machines and networks: a few seeds."""

import os
import subprocess
import sys

import pytest

from tests.simulation.broker import broker
from tierlog.sim.replay import run_seed
from tierlog.sim.world import simulate

NAME = "tests.simulation.broker:broker"


def run(seeds: range) -> None:
    acknowledged = [simulate(broker, seed=seed) for seed in seeds]
    assert min(acknowledged) > 20, "the world was too cruel to test anything"


def test_no_client_sees_an_anomaly_without_faults() -> None:
    run(range(1))


def test_no_client_sees_an_anomaly() -> None:
    run(range(1, 3))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_no_client_ever_sees_an_anomaly(first: int) -> None:
    run(range(first, first + 10))


REPLAY = f"""
from tierlog.sim.replay import run_seed
print(*(run_seed({NAME!r}, seed).trace_hash for seed in (3, 4, 10)))
"""


@pytest.mark.slow
def test_a_seed_is_the_same_history_in_every_process() -> None:
    here = [run_seed(NAME, seed).trace_hash for seed in (3, 4, 10)]
    for hash_seed in ("1", "2"):
        environ = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", REPLAY], env=environ, capture_output=True, text=True, check=True
        )
        assert there.stdout.split() == here
