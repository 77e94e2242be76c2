"""What work took, without what it waited for."""

import asyncio

import pytest

from tierlog.groups.effort import Effort


class HandClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


async def test_steps_count_and_waiting_does_not() -> None:
    clock = HandClock()
    effort = Effort(clock)

    async def work() -> str:
        clock.seconds += 1
        await asyncio.sleep(0)
        clock.seconds += 2
        return "done"

    async def others() -> None:
        clock.seconds += 100

    result, _ = await asyncio.gather(effort.count(work()), others())
    assert result == "done"
    assert effort.seconds == 3


async def test_a_call_for_a_thread_counts_also_if_it_fails() -> None:
    clock = HandClock()
    effort = Effort(clock)

    def call(seconds: float) -> None:
        clock.seconds += seconds
        raise KeyError

    with pytest.raises(KeyError):
        await asyncio.to_thread(effort.counted(call), 5.0)
    assert effort.seconds == 5


async def test_faults_and_timeouts_reach_the_work_and_leave_it() -> None:
    effort = Effort(HandClock())

    async def slow() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "in time"
        return "late"

    async def fails() -> None:
        await asyncio.sleep(0)
        raise KeyError

    assert await effort.count(slow()) == "in time"
    with pytest.raises(KeyError):
        await effort.count(fails())


async def test_work_that_is_cancelled_cleans_up() -> None:
    effort, cleaned = Effort(HandClock()), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    task = asyncio.create_task(effort.count(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == [True]
