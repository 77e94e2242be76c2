"""Lets a node's own chores work when they are due: each in a task, never twice at once."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from tierlog.cold.chores import NodeChore
from tierlog.env import Env

Guard: TypeAlias = Callable[[Awaitable[None]], Awaitable[bool]]
"""Does the work and notes what it raises."""


class NodeChores:
    def __init__(self, env: Env, chores: list[NodeChore], guarded: Guard) -> None:
        self._env = env
        self._chores = chores
        self._guarded = guarded
        self._at_work: dict[str, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return list(self._at_work.values())

    def begin(self) -> None:
        """Those that are due and not at work."""
        now_ms = self._env.clock.now_ms()
        for chore in self._chores:
            if now_ms >= chore.due_from_ms and chore.name not in self._at_work:
                task = self._env.tasks.spawn(self._run(chore), name=chore.name)
                self._at_work[chore.name] = task
                task.add_done_callback(partial(self._ended, chore.name))

    async def _run(self, chore: NodeChore) -> None:
        await self._guarded(chore.run())

    def _ended(self, name: str, _: asyncio.Task[None]) -> None:
        del self._at_work[name]
