"""A folder store on a simulated disk, without a loop of its own."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

from tierlog.env import Env, LocalTasks, PlainSenders, SystemClock
from tierlog.sim import SimDisk
from tierlog.sim.ports import SimRng

T = TypeVar("T")


class InlineTasks(LocalTasks):
    """Threads that are quick: the simulated disk is no place for real ones."""

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            answer.set_result(call(*args))
        except Exception as error:  # noqa: BLE001  handed to whoever waits, as a pool does
            answer.set_exception(error)
        return answer


def env_on(disk: SimDisk) -> Env:
    return Env(
        clock=SystemClock(),
        rng=SimRng(Random(disk.op_count)),
        disk=disk,
        tasks=InlineTasks(),
        senders=PlainSenders(),
    )
