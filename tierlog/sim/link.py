"""The way from one simulated host to another, in one direction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from tierlog.sim.pipe import Pipe
    from tierlog.sim.trace import Trace

DELAY_SECONDS = (0.0001, 0.002)
LOOPBACK_SECONDS = (0.00001, 0.0001)


class Link:
    """Delay and state of one direction. Belongs to `SimNetwork`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        trace: Trace,
        *,
        source: str,
        target: str,
    ) -> None:
        self.name = f"{source}>{target}"
        self.up = True
        self.delay = LOOPBACK_SECONDS if source == target else DELAY_SECONDS
        self._pipes: list[Pipe] = []
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self._waiting: list[asyncio.Future[None]] = []

    def draw_delay(self) -> float:
        return self._rng.uniform(*self.delay)

    def tell(self, event: str) -> None:
        self._trace.fold(f"{self.name} {event}")

    def add(self, pipe: Pipe) -> None:
        self._pipes.append(pipe)
        if len(self._pipes) % 64 == 0:
            self._forget_dead()

    def _forget_dead(self) -> None:
        self._pipes = [pipe for pipe in self._pipes if not pipe.dead()]

    def block(self) -> None:
        self.up = False
        self.tell("blocked")

    def heal(self) -> None:
        if self.up:
            return
        self.up = True
        self.tell("healed")
        self._forget_dead()
        for pipe in self._pipes:
            pipe.link_healed()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def pass_one(self) -> None:
        """Carry one packet across: wait while the link is down, then for its delay."""
        while not self.up:
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(future)
            await future
        await asyncio.sleep(self.draw_delay())
