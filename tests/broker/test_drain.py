"""After an outage: the backlog drains, and those who write meanwhile hardly notice.

The machine has few threads here, and a scan of a segment takes as long as it does: whoever starts
as many as there are segments makes the syncs of the hot log wait behind them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from tests.broker import asks
from tests.broker.coldworld import ColdServed, Lives, in_world, until
from tierlog.cold import staging
from tierlog.cold.tiersettings import TierSettings
from tierlog.env import Tasks
from tierlog.wire.error_codes import ErrorCode

THREADS = 8
SCAN_S = 0.5
PARTITIONS = 20
SEGMENTS = 5
"""Of each partition: a hundred wait in all."""
PRODUCES = 200
HELD = 2.0
"""How much slower the slowest hundredth may be while a backlog drains."""


class FewThreads:
    """Implements `Tasks` with as many threads as a real node has, first come, first served."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._free = asyncio.Semaphore(THREADS)
        self.spawn = tasks.spawn
        self.in_process = tasks.in_process

    def in_thread(self, call: Callable[..., Any], *args: object) -> "asyncio.Future[Any]":
        return self.spawn(self._in_turn(call, *args), name="thread")

    async def _in_turn(self, call: Callable[..., Any], *args: object) -> Any:
        async with self._free:
            if call is staging.scan:
                await asyncio.sleep(SCAN_S)
            return await self._tasks.in_thread(call, *args)


async def slowest(served: ColdServed, is_going_on: Callable[[], bool] = lambda: True) -> float:
    """Of the slowest hundredth of those who write one after the other, in seconds, while it does;
    of no more than so many."""
    clock = served.node.env.clock
    seconds: list[float] = []
    while len(seconds) < PRODUCES and is_going_on():
        began = clock.monotonic()
        answer = await asks.produce(served, "hot", asks.batch_of(served, b"v"))
        assert answer.error_code == ErrorCode.NONE
        seconds.append(clock.monotonic() - began)
    return sorted(seconds)[-max(len(seconds) // 100, 1)]


async def drained(lives: Lives) -> tuple[float, float]:
    """The slowest hundredth of produces while the store is away, and while a backlog drains."""
    lives.env = replace(lives.env, tasks=FewThreads(lives.env.tasks))
    async with lives.node() as served:
        await served.tiered("hot", segment_bytes=str(1 << 20))
        topic = await served.tiered("t", partitions=PARTITIONS)
        lives.store.is_closed = True
        for index in range(PARTITIONS):
            for _ in range(SEGMENTS):
                await served.seal("t", b"x" * 5000, index=index)
        uploads = [served.uploads("t", one.index) for one in topic.partitions]
        await until(
            lambda: sum(one.status.backlog_segments for one in uploads) == PARTITIONS * SEGMENTS
        )
        before = await slowest(served)
        lives.store.is_closed = False
        await until(lambda: any(one.task is not None for one in uploads))
        during = await slowest(served, lambda: any(one.status.backlog_segments for one in uploads))
        await until(lambda: not any(one.status.backlog_segments for one in uploads))
        for one in topic.partitions:
            assert await served.values("t", index=one.index) == [b"x" * 5000] * SEGMENTS
    return before, during


@in_world
async def test_writers_hardly_notice_that_a_hundred_segments_drain(lives: Lives) -> None:
    before, during = await drained(lives)
    assert during <= HELD * before


@in_world
async def test_writers_would_notice_if_all_of_them_were_uploaded_at_once(lives: Lives) -> None:
    """What the test above is worth."""
    greedy = partial(TierSettings, uploads_at_once=64)
    with patch("tierlog.broker.tiering.TierSettings", greedy):
        before, during = await drained(lives)
    assert during > HELD * before
