"""When to try again: a deadline, and pauses that grow and are drawn, so that clients spread out."""

import asyncio

from tierlog.client.errors import ClientError
from tierlog.env import Clock, Rng


class Retry:
    """The attempts of one call."""

    __slots__ = ("_clock", "_deadline", "_pause_max", "_pause_s", "_rng")

    def __init__(
        self, clock: Clock, rng: Rng, *, seconds: float, pause_s: float, pause_s_max: float
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._deadline = clock.monotonic() + seconds
        self._pause_s = pause_s
        self._pause_max = pause_s_max

    @property
    def left_s(self) -> float:
        return self._deadline - self._clock.monotonic()

    async def pause(self, error: ClientError) -> None:
        """Wait before the next attempt; raises the error when the time is up."""
        pause = self._pause_s * (0.5 + self._rng.random())
        if self.left_s <= pause:
            raise error
        self._pause_s = min(self._pause_max, 2 * self._pause_s)
        await asyncio.sleep(pause)
