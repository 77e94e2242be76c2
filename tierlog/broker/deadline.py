"""How long a request may wait for a change to happen.

Only the waiting ends: a change that was begun goes on, and its sender hears REQUEST_TIMED_OUT. It
goes on, too, when the sender hangs up, so that no change stops half way for that.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from tierlog.broker.errors import RequestTimedOut
from tierlog.errors import TierlogError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tierlog.env import Env

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Deadline:
    """One for each request, shared by everything in it."""

    __slots__ = ("_at", "_env", "_timeout_ms")

    def __init__(self, env: Env, timeout_ms: int) -> None:
        self._env = env
        self._timeout_ms = max(timeout_ms, 0)
        self._at = env.clock.monotonic() + self._timeout_ms / 1000

    async def wait(self, work: Coroutine[Any, Any, T], *, what: str) -> T:
        """Begin the work and return what it does, or raise `RequestTimedOut`."""
        task = self._env.tasks.spawn(work, name=what)
        left_s = max(0.0, self._at - self._env.clock.monotonic())
        try:
            done, _ = await asyncio.wait([task], timeout=left_s)
        except asyncio.CancelledError:
            task.add_done_callback(note_late)
            raise
        if not done:
            task.add_done_callback(note_late)
            raise RequestTimedOut(
                f"{what}: not done within {self._timeout_ms} ms; it may be so later"
            )
        return task.result()


def note_late(task: asyncio.Task[Any]) -> None:
    """Nobody waits any more, so the log is the only one to tell. A fault of ours goes further."""
    if task.cancelled():
        return
    fault = task.exception()
    if isinstance(fault, TierlogError):
        logger.warning("%s, after its sender had stopped waiting: %s", task.get_name(), fault)
    elif fault is not None:
        logger.error("%s failed", task.get_name(), exc_info=fault)
