"""What a node does without being asked, on a clock that the test moves."""

import asyncio
from collections.abc import Callable

import pytest

from tests.broker.support import Served, serving
from tests.hot.support import FixedClock, batch
from tierlog.broker import upkeep
from tierlog.config import NodeSettings

ROUNDS_MAX = 1000


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "TICK_S", 0.0)


def clock_of(served: Served) -> FixedClock:
    clock = served.node.env.clock
    assert isinstance(clock, FixedClock)
    return clock


async def happens(condition: Callable[[], bool]) -> bool:
    """Whether it comes true while the upkeep has many turns."""
    for _ in range(ROUNDS_MAX):
        if condition():
            return True
        await asyncio.sleep(0)
    return False


async def test_a_topic_of_the_page_cache_is_synced_after_flush_ms() -> None:
    async with serving() as served:
        topic = await served.create("t", flush_messages="1000", flush_ms="60000")
        one, clock = topic.partition(0), clock_of(served)
        one.append(memoryview(batch(b"v", timestamp=clock.ms)), clock.ms)
        clock.ms += 59_999
        assert not await happens(lambda: one.log.durable_end == 1)
        clock.ms += 1
        assert await happens(lambda: one.log.durable_end == 1)


async def test_retention_is_looked_at_once_in_its_interval() -> None:
    settings = NodeSettings(log_retention_check_interval_ms=3_600_000)
    async with serving(settings) as served:
        topic = await served.create("t", remote_storage_enable="false", retention_ms="1000")
        log, clock = topic.partition(0).log, clock_of(served)
        await served.fill("t", 3)
        clock.ms += 3_600_000
        assert await happens(lambda: log.log_start == 3)
        await served.fill("t", 1)
        clock.ms += 3_599_999
        assert not await happens(lambda: log.log_start == 4), "due by age, not by interval"
        clock.ms += 1
        assert await happens(lambda: log.log_start == 4)
