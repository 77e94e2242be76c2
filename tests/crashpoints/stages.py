"""Which stage of the cold tier's road an I/O call belongs to, told from the stack that made it.

The code under test is not asked and does not know: whoever adds a call to a stage has added a crash
point to it. Calls in threads lose their stack; `StagedTasks` notes it when they are handed over.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

from tierlog.env import Tasks
from tierlog.hot.job import SyncJob

T = TypeVar("T")

EXPIRY = ("expire", "collect")
"""Of the story in `stage_expire.py`."""
# Of the road, the story of `story.py`; "delete topic" and "merge" have their own, likewise.
STAGES = (
    "start",
    "state",
    "claim",
    "upload",
    "page sealing",
    "publish",
    "drop",
    "repair",
    "restore",
)

BY_MODULE = {
    "tierlog.cold.restore": "restore",
    "tierlog.cold.restoring": "restore",
    "tierlog.cold.walk": "restore",
    "tierlog.cold.statekeeper": "state",
    "tierlog.cold.sending": "upload",
    "tierlog.cold.dropper": "drop",
    "tierlog.cold.merger": "merge",
    "tierlog.cold.sweeper": "delete topic",
    "tierlog.cold.expirer": "expire",
    "tierlog.cold.collector": "collect",
    "tierlog.cold.scrubber": "repair",
    "tierlog.cold.scrubrepair": "repair",
    "tierlog.cold.audit_object": "repair",
}
BY_FUNCTION = {
    "Publisher._write_pages": "page sealing",
    "Append.__call__": "page sealing",
    "Publisher._claim": "claim",
    "Publisher.commit": "publish",
    "PartitionUploader._send": "upload",
    "Membership.delete_topic": "delete topic",
}
OUTERMOST = ("restore", "drop", "repair", "merge", "delete topic", *EXPIRY)
"""Stages that count whatever is called inside of them."""

is_repairing: list[bool] = []
"""Not empty in the chapter of the scrubber: what walks a manifest then is no restore."""

lost: list[bool] = []
"""Not empty from the moment in that chapter when the store loses something, until it is over."""

LOOPS = ("asyncio.events", "tierlog.sim.loop")
"""Where every stack of the simulated world begins."""

_handed: list[str | None] = []
"""The stage of the thread call that runs now: it runs on the loop, one at a time."""


def current_stage() -> str | None:
    """None: no business of the cold tier."""
    if _handed and _handed[-1] is not None:
        return _handed[-1]
    found: str | None = None
    is_cold = False
    frame = sys._getframe(1)
    while (module := str(frame.f_globals.get("__name__", ""))) not in LOOPS:
        stage = BY_FUNCTION.get(frame.f_code.co_qualname) or BY_MODULE.get(module)
        if stage in OUTERMOST or _removes_segments(frame):
            return "repair" if stage == "restore" and is_repairing else stage or "drop"
        found = found or stage
        is_cold = is_cold or module.startswith("tierlog.cold.")
        assert frame.f_back is not None, "everything runs on the loop"
        frame = frame.f_back
    return found or ("start" if is_cold else None)


def _removes_segments(frame: FrameType) -> bool:
    """A drop is carried out by a sync job of the log: a checkpoint that says so, then the files."""
    is_job = frame.f_code.co_qualname == SyncJob._vouch.__qualname__
    return is_job and bool(frame.f_locals["self"].removals)


class StagedTasks:
    """Implements `Tasks` by another, and hands the stage on to what runs in threads."""

    def __init__(self, tasks: Tasks, *, is_needed: Callable[[], bool]) -> None:
        self._tasks = tasks
        self._is_needed = is_needed

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        return self._tasks.spawn(work, name=name)

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        if not self._is_needed():
            return self._tasks.in_thread(call, *args)
        stage = current_stage()

        def staged() -> T:
            _handed.append(stage)
            try:
                return call(*args)
            finally:
                _handed.pop()

        return self._tasks.in_thread(staged)

    def in_process(
        self, call: Callable[..., T], *args: object, limit_s: float | None = None
    ) -> asyncio.Future[T]:
        return self._tasks.in_process(call, *args, limit_s=limit_s)
