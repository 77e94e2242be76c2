"""Waiting ends; what was begun does not."""

import asyncio
import logging

import pytest

from tests.broker.support import LoopTasks
from tests.hot.support import env_on
from tierlog.broker.deadline import Deadline
from tierlog.broker.errors import Contended, InvalidRequest, RequestTimedOut
from tierlog.env import Env
from tierlog.sim.disk import SimDisk


@pytest.fixture
def env() -> Env:
    return env_on(SimDisk())


class Work:
    """Waits to be told how to end."""

    def __init__(self) -> None:
        self.told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()

    async def run(self) -> str:
        try:
            return await self.told
        finally:
            self.ended.set()


async def test_what_is_done_in_time_is_returned(env: Env) -> None:
    work = Work()
    work.told.set_result("done")
    assert await Deadline(env, 1000).wait(work.run(), what="work") == "done"


async def test_what_is_wrong_is_told_even_without_any_time(env: Env) -> None:
    async def refuse() -> None:
        raise InvalidRequest("no")

    for timeout_ms in (0, -1):
        with pytest.raises(InvalidRequest):
            await Deadline(env, timeout_ms).wait(refuse(), what="work")


async def test_work_goes_on_when_its_time_is_up(env: Env) -> None:
    work = Work()
    with pytest.raises(RequestTimedOut, match="creation of t: not done within 0 ms"):
        await Deadline(env, 0).wait(work.run(), what="creation of t")
    assert not work.ended.is_set()
    work.told.set_result("done")
    await work.ended.wait()


async def test_work_goes_on_when_its_sender_hangs_up(env: Env) -> None:
    work = Work()
    waiting = asyncio.ensure_future(Deadline(env, 60_000).wait(work.run(), what="work"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not work.told.cancelled()
    work.told.set_result("done")
    await work.ended.wait()


async def test_a_failure_that_nobody_waits_for_is_in_the_log(
    env: Env, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work()
    with pytest.raises(RequestTimedOut):
        await Deadline(env, 0).wait(work.run(), what="creation of t")
    with caplog.at_level(logging.WARNING):
        work.told.set_exception(Contended("t"))
        await work.ended.wait()
        await asyncio.sleep(0)
    assert "creation of t, after its sender had stopped waiting" in caplog.text


async def test_one_deadline_is_shared_by_all_that_it_waits_for() -> None:
    class Clock:
        seconds = 0.0

        def now_ms(self) -> int:
            return 0

        def monotonic(self) -> float:
            return self.seconds

    clock = Clock()
    base = env_on(SimDisk())
    env = Env(clock=clock, rng=base.rng, disk=base.disk, tasks=LoopTasks(), senders=base.senders)
    deadline = Deadline(env, 60_000)
    clock.seconds = 60.0
    work = Work()
    with pytest.raises(RequestTimedOut):
        await deadline.wait(work.run(), what="work")
    work.told.set_result("done")
    await work.ended.wait()
