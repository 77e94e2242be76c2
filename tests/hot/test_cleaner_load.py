"""What a coordinator gains: many commits of few keys are read back from a small share of the bytes.

On a real disk with real threads. In `make test` 100,000 commits over 1,000 keys;
`python -m tests.hot.test_cleaner_load` takes ten times as many of both and prints the figures.
"""

import asyncio
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hot.cleaned import NOW_MS, keyed, records_of
from tests.hot.support import append
from tierlog.env import local_env
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.hot.cleaner import Candidate, Cleaner, CleanerSettings
from tierlog.hot.dirt import CleaningRules

SETTINGS = LogSettings(segment_bytes=4 << 20, contiguous=False, flush_messages=10**9)
BATCH = 100


async def fill(log: Log, *, commits: int, keys: int) -> None:
    """Offsets of so many partitions, committed one after the other, in batches."""
    for first in range(0, commits, BATCH):
        numbers = range(first, first + BATCH)
        pairs = [(b"group/topic/%d" % (one % keys), b"offset %012d" % one) for one in numbers]
        append(log, keyed(*pairs), now_ms=NOW_MS)
        if first % 10_000 == 0:
            await log.settle()
    log.roll()
    await log.settle()


async def story(folder: Path, *, commits: int, keys: int) -> tuple[int, int, float, Log]:
    """Bytes before and after, the seconds that cleaning took, and the log."""
    env = local_env()
    directory = LogDirectory(env, str(folder))
    log = await directory.open_log("offsets-0", SETTINGS)
    await fill(log, commits=commits, keys=keys)
    before = log.size_bytes
    one = Candidate("offsets-0", log, CleaningRules(min_dirty_ratio=0.0))
    cleaner = Cleaner(env, directory, lambda: [one], CleanerSettings())
    began = time.monotonic()
    await cleaner.clean(one)
    took = time.monotonic() - began
    after = log.size_bytes
    await log.close()
    directory.close()
    reopened = LogDirectory(env, str(folder))
    return before, after, took, Log(reopened, "offsets-0", replace(SETTINGS, flush_messages=1))


@pytest.mark.slow
def test_commits_are_loaded_from_a_twentieth_of_the_bytes(tmp_path: Path) -> None:
    before, after, _, log = asyncio.run(story(tmp_path, commits=100_000, keys=1000))
    assert after < before * 0.05
    records = records_of(log)
    assert [(one.offset, one.key, one.value) for one in records] == [
        (number, b"group/topic/%d" % (number % 1000), b"offset %012d" % number)
        for number in range(99_000, 100_000)
    ]
    log.close_now()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        before, after, took, log = asyncio.run(story(Path(folder), commits=10**6, keys=10**4))
        began = time.monotonic()
        count = len(records_of(log))
        print(f"{before} bytes became {after} ({after / before:.2%}) in {took:.1f} s")
        print(f"{count} records read back in {time.monotonic() - began:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
