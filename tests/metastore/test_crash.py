"""Kills, power cuts and rot at every disk operation, and planted bugs that prove the net."""

import logging
from collections.abc import Iterator

import pytest

from tests.metastore.crash import History, hunt_crashes, hunt_damage
from tests.metastore.planted import BUGS, Bug


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)  # Torn tails are the daily bread here.
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_any_disk_operation_leaves_a_prefix_with_all_that_was_acknowledged(
    seed: int,
) -> None:
    assert hunt_crashes(seed) is None


@pytest.mark.parametrize("seed", range(2))
def test_rot_below_the_end_is_refused(seed: int) -> None:
    assert hunt_damage(seed) is None


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 160, 10))
def test_many_histories_with_crashes_and_rot(first: int) -> None:
    for seed in range(first, first + 10):
        assert hunt_crashes(seed) is None
        assert hunt_damage(seed) is None


def test_the_histories_meet_every_kind_of_trouble() -> None:
    histories = [History(seed, can_reserve=seed % 2 > 0) for seed in range(10)]
    operations = {op.split(" ")[0] for one in histories for op, _, _ in one.moments}
    assert operations >= {"create", "pwrite", "fdatasync", "rename", "sync_dir", "truncate"}
    assert any(one.is_broken for one in histories), "failed fsyncs"
    assert any(one.known.refused for one in histories), "full disks"
    snapshots = [op for op, _, _ in histories[0].moments if "rename" in op and "snapshot" in op]
    assert len(snapshots) > 2, "compactions, not only those of opening and closing"


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    assert bug.hunt(bug.seed) is None, "the seed must be clean without the bug"
    with bug.plant():
        assert bug.hunt(bug.seed) is not None, "the net has a hole"
