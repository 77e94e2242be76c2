"""Tasks whose threads answer at once: for a simulated disk without a simulated world."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tierlog.env import LocalTasks

T = TypeVar("T")


class InlineTasks(LocalTasks):
    """Calls happen where they are made: what a test sees does not depend on a thread's speed, and
    any loop will do, one of virtual time included."""

    def __init__(self) -> None:
        super().__init__(thread_count=1)

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(call(*args))
        except Exception as fault:  # noqa: BLE001 - handed to whoever waits, as threads do
            future.set_exception(fault)
        return future
