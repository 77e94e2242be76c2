"""Where a replay goes on, and how much of its target is read to know it. Without a Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from tierlog.client.data import EARLIEST
from tierlog.records.record import Record, encode_batch
from tierlog.spark import resuming
from tierlog.spark.bounds import PartitionName
from tierlog.spark.resuming import SOURCE_HEADER, Looked, last_since, look
from tierlog.types import Offset, TimestampMs
from tierlog.wire.error_codes import ErrorCode

NAMES = [PartitionName("orders", 0), PartitionName("orders", 1)]


class Target:
    """A broker's client: two partitions of one record a batch, each with its header."""

    def __init__(self, *sources: list[str | None]) -> None:
        self.sources = sources
        self.fetched: set[tuple[int, int]] = set()
        self.router = SimpleNamespace(attempt=self._attempt)

    async def _attempt(self, work: Any, **_: object) -> Any:
        return await work()

    async def list_offsets(self, topic: str, asked: dict[int, int]) -> Any:
        return {
            each: SimpleNamespace(offset=0 if sign == EARLIEST else len(self.sources[each]))
            for each, sign in asked.items()
        }

    async def fetch(self, topic: str, partition: int, offset: int, **_: object) -> Any:
        assert topic == "target"
        self.fetched.add((partition, offset))
        source = self.sources[partition][offset]
        headers = () if source is None else ((SOURCE_HEADER, source.encode()),)
        record = Record(Offset(offset), TimestampMs(5), b"k", b"v", headers)
        return SimpleNamespace(
            error=ErrorCode.NONE, batches=bytes(encode_batch([record])), high_watermark=offset
        )


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "WINDOW", 2)
    monkeypatch.setattr(resuming, "WINDOW_MAX", 8)


async def test_the_last_of_a_run_is_found_from_the_end_and_progress_is_told() -> None:
    none: list[str | None] = [None] * 40
    target: Any = Target([*none, "orders/0/7/r", "orders/0/9/other", None], none)
    seen: list[tuple[int, int]] = []
    found = await look(
        target, "target", NAMES, "r", watcher=lambda done, total: seen.append((done, total))
    )
    assert found == {NAMES[0]: Looked(end=43, last=7), NAMES[1]: Looked(end=40, last=None)}
    assert len([one for one in target.fetched if one[0] == 0]) <= 6
    assert len([one for one in target.fetched if one[0] == 1]) == 40
    assert seen[-1] == (83, 83)
    assert len(seen) >= 7  # Not only at the end: no window is larger than the largest.


async def test_a_fresh_run_reads_nothing_and_a_task_that_is_run_again_what_came_since() -> None:
    none: list[str | None] = [None] * 40
    target: Any = Target([*none], [*none])
    since = (await look(target, "target", NAMES, "r", is_fresh=True))[NAMES[0]]
    assert (since, target.fetched) == (Looked(end=40, last=None), set())
    assert await last_since(target, "target", NAMES[0], "r", since) is None
    target.sources[0].extend(["orders/0/3/r", "orders/0/4/r", None])
    assert await last_since(target, "target", NAMES[0], "r", since) == 4
    assert min(target.fetched) >= (0, 40)


async def test_a_task_goes_on_where_the_driver_saw_the_end() -> None:
    target: Any = Target([None] * 3, [])
    assert await last_since(target, "target", NAMES[0], "r", Looked(end=3, last=11)) == 11
    assert target.fetched == set()
