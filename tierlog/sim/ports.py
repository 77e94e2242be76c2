"""The ports of one process in the simulated world: clock, randomness, tasks.

The disk is `SimDisk`. What these answer depends on the seed and on virtual time alone.
"""

import asyncio
import pickle
import uuid
from collections.abc import Callable, Coroutine
from math import floor
from random import Random
from typing import Any, TypeVar

from tierlog.sim.life import Life, context_of
from tierlog.sim.loop import SimLoop

T = TypeVar("T")

START_MS = 1_767_225_600_000
"""2026-01-01 UTC: when every simulated history begins."""


class SimClock:
    """Implements `tierlog.env.Clock`. One for each host; its wall clock may be wrong."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._offset_ms = 0.0
        self._rate = 1.0
        self._latest_ms = 0

    def now_ms(self) -> int:
        return START_MS + floor(self._offset_ms + self._loop.time() * 1000 * self._rate)

    def latest_ms(self) -> int:
        """The latest that it has ever shown: it may have been set back since."""
        return max(self._latest_ms, self.now_ms())

    def monotonic(self) -> float:
        return self._loop.time()

    def step(self, milliseconds: float) -> None:
        """The wall clock jumps, forth or back."""
        self._latest_ms = self.latest_ms()
        self._offset_ms += milliseconds

    def drift(self, rate: float) -> None:
        """From now on the wall clock runs `rate` times as fast as time."""
        self._latest_ms = self.latest_ms()
        self._offset_ms += self._loop.time() * 1000 * (self._rate - rate)
        self._rate = rate


class SimRng:
    """Implements `tierlog.env.Rng` from one seeded stream."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def random(self) -> float:
        return self._random.random()

    def randrange(self, stop: int) -> int:
        return self._random.randrange(stop)

    def randbytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


class SimTasks:
    """Implements `tierlog.env.Tasks`. What is started belongs to the process and dies with it."""

    def __init__(self, loop: SimLoop, life: Life) -> None:
        self._loop = loop
        self._life = life

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        named = f"{self._life.host}.{self._life.number}/{name}"
        return self._loop.create_task(work, name=named, context=context_of(self._life))

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """At some moment from now on: what the caller does next may happen before or after."""
        return context_of(self._life).run(self._loop.run_in_executor, None, call, *args)

    def in_process(
        self, call: Callable[..., T], *args: object, limit_s: float | None = None
    ) -> asyncio.Future[T]:
        """Likewise, with everything pickled there and back to prove that it can be. None hangs."""
        packed = pickle.dumps((call, args))
        return self.in_thread(_call_pickled, packed)


def _call_pickled(packed: bytes) -> Any:
    call, args = pickle.loads(packed)
    return pickle.loads(pickle.dumps(call(*args)))
