"""Time as a port.

`now_ms` is the wall clock: it stamps records and may jump. `monotonic` measures: it never goes back
and its zero means nothing. Sleeping is `asyncio.sleep`, which the simulated loop moves by itself.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)
