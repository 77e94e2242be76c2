"""How late the loop is: what everybody waits for who waits for anything else.

Ten times a second a timer is set and the delay noted with which it is served. One call in flight at
most, so a stalled loop is counted once, with its whole delay. A timer's own grain (a millisecond
under uvloop) is in the figures.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tierlog.broker.stats import Histogram
    from tierlog.env import Clock

SAMPLE_S: Final = 0.1
"""A stall longer than this is always seen, a shorter one by its share."""


class LoopLag:
    def __init__(self, clock: Clock, histogram: Histogram) -> None:
        self._monotonic = clock.monotonic
        self._histogram = histogram
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._arm(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(SAMPLE_S, self._sample, loop, self._monotonic() + SAMPLE_S)

    def _sample(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        # A loop rounds its timers: one may be served a little early.
        self._histogram.note(max(0.0, self._monotonic() - due))
        self._arm(loop)
