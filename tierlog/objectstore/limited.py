"""Keeps requests to a store within a rate: bytes written a second, reads a second.

A request waits until what earlier ones owe is paid, then goes out whole and owes its own share:
the mean over any long while is the rate, and a large body is not torn to pieces for it. First come,
first served. What `is_bulk` does not name by its key owes, and waits for nobody: whatever the size,
a manifest is what others wait for. Nor do listings.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tierlog.env import Clock
from tierlog.objectstore.around import Around, Request
from tierlog.objectstore.port import ObjectStore

T = TypeVar("T")


def every(_: str) -> bool:
    return True


class Meter:
    """Debt, paid off at `rate` units a second; None is no limit."""

    def __init__(self, clock: Clock, rate: float | None) -> None:
        self.rate = rate
        self._clock = clock
        self._paid_at = clock.monotonic()

    def wait(self) -> float:
        """How many seconds earlier debt still needs."""
        return max(0.0, self._paid_at - self._clock.monotonic()) if self.rate else 0.0

    def owe(self, units: float) -> float:
        """Take on the debt; the answer is how many seconds earlier debt still needs."""
        if not self.rate:
            return 0.0
        now = self._clock.monotonic()
        wait = max(0.0, self._paid_at - now)
        self._paid_at = now + wait + units / self.rate
        return wait


class Limited(Around):
    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        put_bytes_per_second: float | None = None,
        gets_per_second: float | None = None,
        is_bulk: Callable[[str], bool] = every,
    ) -> None:
        super().__init__(store)
        self._is_bulk = is_bulk
        self.put_bytes = Meter(clock, put_bytes_per_second)
        self.gets = Meter(clock, gets_per_second)

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        wait = 0.0
        if request.name in ("get", "get_tail"):
            wait = self.gets.owe(1)
        elif request.size:
            wait = self.put_bytes.owe(request.size)
            wait = wait if self._is_bulk(request.key) else 0.0
        if wait:
            await asyncio.sleep(wait)
        return await call()
