"""Handles of a loop that is never in debug mode.

asyncio's own ask their loop for that mode when they are made and when they are cancelled. In a
simulated second there are hundreds of them, and little else costs as much.
"""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any


class SimHandle(asyncio.Handle):
    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        own: Any = self
        own._context = contextvars.copy_context() if context is None else context
        own._loop = loop
        own._callback = callback
        own._args = args
        own._cancelled = False
        own._repr = None
        own._source_traceback = None

    def cancel(self) -> None:
        own: Any = self
        own._cancelled = True
        own._callback = own._args = None


class SimTimer(asyncio.TimerHandle):
    """Made for a loop that has it among its timers at once, which counts those it need not wake."""

    __slots__ = ()
    _scheduled: bool

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        own: Any = self
        own._context = contextvars.copy_context() if context is None else context
        own._loop = loop
        own._callback = callback
        own._args = args
        own._cancelled = False
        own._repr = None
        own._source_traceback = None
        own._when = when
        own._scheduled = True

    def cancel(self) -> None:
        own: Any = self
        if not own._cancelled:
            own._loop._timer_cancelled_count += own._scheduled
            own._cancelled = True
            own._callback = own._args = None
