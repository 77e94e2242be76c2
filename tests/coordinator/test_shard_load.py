"""What a coordinator gains by compaction: many commits of few keys are loaded from a small share of
the bytes, through the shard itself.

On a real disk with real threads. In `make test` 100,000 commits over 1,000 keys; `python -m
tests.coordinator.test_shard_load` takes ten times as many of both and prints the figures.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tierlog.coordinator.shard import Shard
from tierlog.env import local_env
from tierlog.groups.machine import GroupMachine
from tierlog.groups.values import Commit, GroupLimits
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.hot.cleaner import Candidate, Cleaner, CleanerSettings
from tierlog.hot.dirt import CleaningRules
from tierlog.types import LeaderEpoch

SETTINGS = LogSettings(segment_bytes=4 << 20, contiguous=False, flush_messages=10**9)
BATCH = 100
TOPIC_ID = b"t" * 16


class Outcome(NamedTuple):
    before: int
    """Bytes of the log."""
    after: int
    clean_s: float
    load_s: float
    machine: GroupMachine


def shard_of(log: Log) -> Shard[GroupMachine]:
    partition: Any = SimpleNamespace(log=log, leader_epoch=LeaderEpoch(0))
    return Shard(local_env(), partition, lambda: GroupMachine(GroupLimits(), lambda one: one))


async def commit_all(shard: Shard[GroupMachine], log: Log, *, commits: int, keys: int) -> None:
    """Offsets of so many partitions, one after the other, a batch for each request."""
    machine = shard.machine
    for first in range(0, commits, BATCH):
        some = [
            Commit("topic", number % keys, number, -1, "", TOPIC_ID)
            for number in range(first, first + BATCH)
        ]
        shard.carry_out(machine.commit("group", "", None, -1, some, 0, shard.now()))
        if first % 10_000 == 0:
            await log.settle()
    log.roll()
    await log.settle()


async def story(folder: Path, *, commits: int, keys: int) -> Outcome:
    env = local_env()
    directory = LogDirectory(env, str(folder))
    log = await directory.open_log("offsets-0", SETTINGS)
    writer = shard_of(log)
    await writer.load()
    await commit_all(writer, log, commits=commits, keys=keys)
    before = log.size_bytes
    one = Candidate("offsets-0", log, CleaningRules(min_dirty_ratio=0.0))
    began = time.monotonic()
    await Cleaner(env, directory, lambda: [one], CleanerSettings()).clean(one)
    cleaned = time.monotonic()
    after = log.size_bytes
    writer.close()
    await log.close()
    directory.close()
    directory = LogDirectory(env, str(folder))
    log = await directory.open_log("offsets-0", SETTINGS)
    reader = shard_of(log)
    opened = time.monotonic()
    await reader.load()
    loaded = time.monotonic()
    reader.close()
    await log.close()
    directory.close()
    return Outcome(before, after, cleaned - began, loaded - opened, reader.machine)


def check(found: Outcome, *, commits: int, keys: int) -> None:
    assert found.after < found.before * 0.05
    known = found.machine.committed("group")
    assert {place[1]: one.offset for place, one in known.items()} == {
        number % keys: number for number in range(commits - keys, commits)
    }


@pytest.mark.slow
def test_a_coordinator_loads_from_a_twentieth_of_the_bytes(tmp_path: Path) -> None:
    found = asyncio.run(story(tmp_path, commits=100_000, keys=1_000))
    check(found, commits=100_000, keys=1_000)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(story(Path(folder), commits=10**6, keys=10**4))
    check(found, commits=10**6, keys=10**4)
    share = found.after / found.before
    print(f"{found.before} bytes became {found.after} ({share:.2%}) in {found.clean_s:.1f} s")
    print(f"{len(found.machine.committed('group'))} offsets loaded in {found.load_s:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
