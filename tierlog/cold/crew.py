"""A few tasks side by side, never more: who gives work waits for a free place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

    from tierlog.env import Tasks


class Crew:
    """`async with`: at its end all work is done, or, after an error, cancelled. The first error of
    any of them is raised where the next work is given, or at the end."""

    def __init__(self, tasks: Tasks, at_once: int, *, name: str) -> None:
        self._tasks = tasks
        self._at_once = at_once
        self._name = name
        self._busy: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Crew:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while self._busy and fault is None:
                await self._some_end()
        finally:
            for task in self._busy:
                task.cancel()
            await asyncio.gather(*self._busy, return_exceptions=True)

    async def give(self, work: Coroutine[Any, Any, None]) -> None:
        while len(self._busy) >= self._at_once:
            try:
                await self._some_end()
            except BaseException:
                work.close()
                raise
        self._busy.add(self._tasks.spawn(work, name=self._name))

    async def _some_end(self) -> None:
        done, self._busy = await asyncio.wait(self._busy, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
