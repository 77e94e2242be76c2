"""The ground-floor scenario holds, and would not hold if the depot broke its rules."""

import subprocess
import sys
from pathlib import Path

import pytest

from tierlog.sim import SimWorld
from tierlog.sim.couriers import COURIERS, MESSAGE_COUNT, couriers
from tierlog.sim.depot import Bug, decode, encode

ROOT = Path(__file__).resolve().parents[2]


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


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tierlog.sim", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_simulate_prints_a_table_and_names_failed_seeds() -> None:
    held = simulate("tierlog.sim.couriers:couriers", "--seeds", "3")
    assert held.returncode == 0, held.stderr
    head, row = held.stdout.splitlines()
    assert head.split() == ["scenario", "seeds", "virtual", "h", "callbacks/s", "failed"]
    assert row.split()[:2] == ["tierlog.sim.couriers:couriers", "3"]
    assert row.split()[-1] == "0"

    scenario = "tests.sim.test_world:failing_scenario"
    failed = simulate(scenario, "--seeds", "4", "--first", "6")
    assert failed.returncode == 1
    assert f"python -m tierlog.sim.replay {scenario} --seed 7\n" in failed.stdout
    assert "seed 9: AssertionError: odd" in failed.stdout
    assert "--seed 8" not in failed.stdout
