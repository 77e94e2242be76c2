"""The ground-floor scenario holds, and would not hold if the depot broke its rules."""

import pytest

from tierlog.sim import SimWorld
from tierlog.sim.__main__ import main
from tierlog.sim.couriers import COURIERS, MESSAGE_COUNT, couriers
from tierlog.sim.depot import Bug, decode, encode


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_no_acknowledged_message_is_lost(seed: int) -> None:
    world = SimWorld(seed)
    assert world.run(couriers(world)) >= len(COURIERS) * MESSAGE_COUNT


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_no_acknowledged_message_is_lost_under_many_seeds(first: int) -> None:
    for seed in range(first, first + 50):
        world = SimWorld(seed)
        world.run(couriers(world))


@pytest.mark.parametrize("bug", Bug)
def test_a_depot_that_breaks_a_rule_is_found_out(bug: Bug) -> None:
    def search() -> None:
        for seed in range(60):
            world = SimWorld(seed)
            world.run(couriers(world, bug))

    with pytest.raises(AssertionError, match="lost message"):
        search()


def test_a_torn_record_ends_the_log() -> None:
    content = encode(1, b"one") + encode(2, b"two")
    assert decode(content) == ({1: b"one", 2: b"two"}, len(content))
    for size in range(len(encode(1, b"one")), len(content)):
        assert decode(content[:size].ljust(len(content) + 20, b"\0")) == (
            {1: b"one"},
            len(encode(1, b"one")),
        )


def test_simulate_prints_a_table_and_names_failed_seeds(
    capfd: pytest.CaptureFixture[str],
) -> None:
    scenario = "tests.sim.test_world:failing_scenario"
    assert main(["tierlog.sim.couriers:couriers", "--seeds", "3", "--processes", "1"]) == 0
    assert main([scenario, "--seeds", "4", "--first", "6", "--processes", "1"]) == 1
    out = capfd.readouterr().out
    assert out.count("virtual h") == 2
    assert f"python -m tierlog.sim.replay {scenario} --seed 7\n" in out
    assert "seed 9: AssertionError: odd" in out
    assert "--seed 8" not in out
