"""How many chunks are fetched ahead at once, over all readers of the node.

As many as there is memory for while readers wait for their bytes. A reader that finds every chunk
here needs no more than one GET after the other: eight partitions that are read in step reach the
end of their chunks together, and eight chunks at once are 64 MiB that take both processors for a
twentieth of a second, in which a producer's small request waits as well. So the number falls by
half with every moment in which nobody waited, down to one, and is whole again at the first wait.

Always holds: whoever waits for a turn is woken while turns are free.
"""

import asyncio
from collections import deque
from typing import Any, Final

from tierlog.env import Clock

CALM_S: Final = 0.25
"""A replay at full speed waits for dozens of chunks in that time; one that is in step with its
consumer has its next second in memory."""


class Turns:
    def __init__(self, clock: Clock, count_max: int) -> None:
        self._clock = clock
        self._count_max = max(count_max, 1)
        self._used = 0
        self._waited_s = float("-inf")
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        calm_s = self._clock.monotonic() - self._waited_s
        if calm_s >= CALM_S * self._count_max:
            return 1
        return max(self._count_max >> int(calm_s / CALM_S), 1)

    @property
    def is_free(self) -> bool:
        return self._used < self.limit

    def reader_waited(self) -> None:
        """A reader that came back did not find its bytes."""
        self._waited_s = self._clock.monotonic()
        self.wake()

    def use(self, flight: "asyncio.Future[Any]") -> None:
        """A turn, until the flight has landed."""
        self._used += 1
        flight.add_done_callback(self._landed)

    def _landed(self, _: "asyncio.Future[Any]") -> None:
        self._used -= 1
        self.wake()

    async def wait(self) -> None:
        """Until one may be free: look again. Whoever then takes none must `wake` the next."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._queue:
                self._queue.remove(turn)
            else:
                self.wake()
            raise

    def wake(self) -> None:
        free = self.limit - self._used
        while self._queue and free > 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1
