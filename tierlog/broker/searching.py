"""Searches by time, taken in steps, so that nobody waits for a client's question about time.

The log gives the steps. Between two of them everybody else has a turn; batches that are large or
compressed are looked through in a thread, a few at a time: the threads are for the disk first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from tierlog.env import Env
    from tierlog.hot.bytime import Found, Question, Steps

T = TypeVar("T")

AT_ONCE_MAX: Final = 2
"""Batches that are looked through at the same time."""


class Searches:
    """Those of one node."""

    __slots__ = ("_env", "_free")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._free = asyncio.Semaphore(AT_ONCE_MAX)

    async def run(self, steps: Steps[T]) -> T:
        """Take the steps. Raises what the log says."""
        found: Found | None = None
        while True:
            try:
                question = steps.send(found)
            except StopIteration as stop:
                result: T = stop.value
                return result
            if question is None or question.is_small:
                found = None if question is None else question.answer()
                await asyncio.sleep(0)
            else:
                found = await self._in_thread(question)

    async def _in_thread(self, question: Question) -> Found | None:
        await self._free.acquire()
        answer = self._env.tasks.in_thread(question.answer)
        # Who asked may go away; the thread is busy until it is done.
        answer.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(answer)
