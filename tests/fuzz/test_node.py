"""The fuzz of a node that runs, for long; and its inputs."""

import pytest

from tests.fuzz.node import make_input, p99, run

INPUTS = 50_000
SHARDS = 4


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_noise_does_not_disturb_a_normal_client(shard: int) -> None:
    stats = run(1, INPUTS // SHARDS, first=shard * INPUTS // SHARDS)
    assert not stats.failures, stats.failures[0]
    assert stats.inputs == INPUTS // SHARDS
    assert stats.checked > 0
    assert {"answered", "hung up on"} <= stats.outcomes.keys()


def test_an_input_follows_from_seed_and_index_alone() -> None:
    assert [make_input(7, i) for i in range(200)] == [make_input(7, i) for i in range(200)]
    assert make_input(7, 0) != make_input(8, 0)


def test_the_percentile_is_that_of_the_run_alone() -> None:
    before = {0.01: 1000.0, 0.1: 1000.0, float("inf"): 1000.0}
    after = {0.01: 1098.0, 0.1: 1100.0, float("inf"): 1100.0}
    assert p99(before, after) == 0.1
    assert p99({}, after) == 0.01
