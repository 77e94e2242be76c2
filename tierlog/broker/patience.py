"""One timer for many who wait equally long.

Requests of one producer wait for durability with the same time limit, and few of them ever reach
it: a timer for each would be made and cancelled thousands of times a second. Here they stand in
the order in which they came, which is the order in which they are due, and one timer looks after
the first of them.

Who is done leaves when everybody before it is. When the peer goes away they all are, and the timer
goes with them; otherwise an idle one ends by itself within `LOOK_S`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio

LOOK_S: Final = 5.0
"""Longest time to the next look: what has nobody to look after is not kept for longer."""


class Patient(Protocol):
    """Somebody who waits."""

    def done(self) -> bool: ...

    def time_up(self) -> None:
        """It has waited for as long as it may. Done after this."""
        ...


class Patience:
    """See the module."""

    __slots__ = ("_limit_s", "_timer", "_waiting")

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._waiting: deque[tuple[float, Patient]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, one: Patient, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting.append((loop.time() + self._limit_s, one))
        if self._timer is None:
            self._arm(loop)

    def leave(self, *, for_good: bool) -> None:
        """Somebody is done; `for_good` if nobody is likely to come after it."""
        waiting = self._waiting
        while waiting and waiting[0][1].done():
            waiting.popleft()
        if for_good and not waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        delay_s = min(self._waiting[0][0] - loop.time(), LOOK_S)
        self._timer = loop.call_later(max(delay_s, 0.0), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now, waiting = loop.time(), self._waiting
        while waiting and (waiting[0][0] <= now or waiting[0][1].done()):
            _, one = waiting.popleft()
            if not one.done():
                one.time_up()
        if waiting:
            self._arm(loop)
