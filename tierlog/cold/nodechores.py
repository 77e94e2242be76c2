"""Lets a node's own chores work when they are due: each in a task, never twice at once.

What the store does to a chore is no reason for anybody else to wait: the chore alone is put off,
longer each time, and the first failure is told. Only a lie, and another life of the cluster, are
the whole tier's affair.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from tierlog.cold.chores import NodeChore
from tierlog.cold.pace import Pace
from tierlog.cold.refusals import ForeignIncarnation
from tierlog.cold.tiersettings import TierSettings
from tierlog.cold.tierstats import TierStats
from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.objectstore.errors import StoreLies

logger = logging.getLogger(__name__)

Guard: TypeAlias = Callable[[Awaitable[None]], Awaitable[bool]]
"""Does the work and notes what it raises."""


class NodeChores:
    def __init__(
        self,
        env: Env,
        chores: list[NodeChore],
        settings: TierSettings,
        stats: TierStats,
        guarded: Guard,
    ) -> None:
        self._env = env
        self._chores = chores
        self._stats = stats
        self._guarded = guarded
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._looked_ms = 0
        self._paces: defaultdict[str, Pace] = defaultdict(
            lambda: Pace(
                env.clock, env.rng, ms_min=settings.backoff_ms_min, ms_max=settings.backoff_ms_max
            )
        )

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return list(self._at_work.values())

    def begin(self) -> None:
        """Those that are due and not at work. After the clock was set back all of them: when they
        are due next was foreseen by another one."""
        before_ms, self._looked_ms = self._looked_ms, self._env.clock.now_ms()
        is_back = self._looked_ms < before_ms
        for chore in self._chores:
            is_due = is_back or self._looked_ms >= chore.due_from_ms
            is_free = chore.name not in self._at_work and not self._paces[chore.name].is_paused
            if is_due and is_free:
                task = self._env.tasks.spawn(self._run(chore), name=chore.name)
                self._at_work[chore.name] = task
                task.add_done_callback(partial(self._ended, chore.name))

    async def _run(self, chore: NodeChore) -> None:
        pace = self._paces[chore.name]
        try:
            await chore.run()
        except (StoreLies, ForeignIncarnation) as fault:
            pace.failed()
            await self._guarded(_raised(fault))
        except (TierlogError, OSError) as fault:
            self._stats.failure_count += 1
            if pace.failure_count == 0:
                logger.warning("%s waits: %s", chore.name, fault)
            pace.failed()
        except Exception:
            # A bug of ours: it is told, and the chore comes again.
            self._stats.failure_count += 1
            logger.exception("%s stumbled", chore.name)
            pace.failed()
        else:
            pace.succeeded()

    def _ended(self, name: str, _: asyncio.Task[None]) -> None:
        del self._at_work[name]


async def _raised(fault: TierlogError) -> None:
    raise fault
