"""One blocking call on behalf of many: whoever asks while it runs shares the next one.

For the sync of a directory in which names come and go side by side: each needs a sync that began
after its name was there, and none needs one of its own.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tierlog.env import Tasks
from tierlog.hot.waiters import reject, resolve

T = TypeVar("T")


async def to_its_end(work: asyncio.Future[T]) -> T:
    """What a thread does. It cannot be called back: nobody else may come before it has ended."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


class SharedCall:
    def __init__(self, tasks: Tasks, call: Callable[[], None]) -> None:
        self._tasks = tasks
        self._call = call
        self._waiting: list[asyncio.Future[None]] = []
        self._is_running = False

    def request(self) -> asyncio.Future[None]:
        """Done once a call that began after this one has ended; fails as that call does."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if not self._is_running:
            self._is_running = True
            # Not at once: whoever else asks in this turn of the loop shares the call.
            asyncio.get_running_loop().call_soon(self._start)
        return future

    def _start(self) -> None:
        sharing, self._waiting = self._waiting, []
        outcome = self._tasks.in_thread(self._call)
        outcome.add_done_callback(partial(self._done, sharing))

    def _done(self, sharing: list[asyncio.Future[None]], outcome: asyncio.Future[None]) -> None:
        fault = asyncio.CancelledError() if outcome.cancelled() else outcome.exception()
        for future in sharing:
            if fault is None:
                resolve(future)
            elif isinstance(fault, Exception):
                reject(future, fault)
            else:
                future.cancel()
        self._is_running = bool(self._waiting)
        if self._waiting:
            self._start()
