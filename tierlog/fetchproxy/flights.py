"""Downloads under way: one for each thing, however many wait for it, within a byte budget.

A flight belongs to nobody. Who waits for it may go away; it lands, in the cache, for whoever comes
next. Flights that somebody waits for queue for the budget in order; read-ahead takes what is free
at the moment or nothing, and nothing while somebody queues.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from tierlog.env import Tasks

T = TypeVar("T")


class ByteBudget:
    """Invariant: `used <= limit`, unless one alone takes more than all of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.used_peak = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    def try_take(self, size: int) -> bool:
        """Now or not at all."""
        if self._queue or not self._fits(size):
            return False
        self._use(size)
        return True

    async def take(self, size: int) -> None:
        """In turn. Whoever is cancelled meanwhile has taken nothing."""
        if self.try_take(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give(size)
            else:
                self._queue.remove((size, turn))
                self._admit()
            raise

    def give(self, size: int) -> None:
        self.used -= size
        assert self.used >= 0
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            size, turn = self._queue.popleft()
            if not turn.done():
                self._use(size)
                turn.set_result(None)

    def _fits(self, size: int) -> bool:
        # What is larger than all of the budget goes alone: a batch of 100 MiB must be readable.
        return self.used + size <= self.limit or self.used == 0

    def _use(self, size: int) -> None:
        self.used += size
        self.used_peak = max(self.used_peak, self.used)


class Allowance:
    """What may be in flight for one fetch: twice its byte limit, and two chunks at least.

    Pass the same one for all partitions of a fetch, and to the next fetch of that connection: what
    it left behind still counts. Bytes that a read waits for are counted and never refused; they
    are at most the chunks that one batch lies in, for each partition.
    """

    __slots__ = ("limit", "used", "used_peak")

    def __init__(self, bytes_max: int, *, chunk_bytes: int = 8 << 20) -> None:
        self.limit = max(2 * bytes_max, 2 * chunk_bytes)
        self.used = 0
        self.used_peak = 0

    def has_room(self, size: int) -> bool:
        return self.used + size <= self.limit

    def count(self, size: int, flight: "asyncio.Future[Any]") -> None:
        self.used += size
        self.used_peak = max(self.used_peak, self.used)
        flight.add_done_callback(lambda _: self._landed(size))

    def _landed(self, size: int) -> None:
        self.used -= size


class Flights(Generic[T]):
    def __init__(self, tasks: Tasks, budget: ByteBudget) -> None:
        self._tasks = tasks
        self._budget = budget
        self._flights: dict[Hashable, asyncio.Task[T]] = {}
        self.is_closed = False

    def get(self, key: Hashable) -> asyncio.Task[T] | None:
        return self._flights.get(key)

    def fly(
        self, key: Hashable, size: int, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> asyncio.Task[T]:
        """The flight for `key`: the one under way, or a new one. Wait for it through
        `asyncio.shield`."""
        return self._flights.get(key) or self._start(key, size, work, taken=False)

    def try_fly(
        self, key: Hashable, size: int, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> asyncio.Task[T] | None:
        """The same, for what nobody waits for; None if there is no room."""
        flight = self._flights.get(key)
        if flight is not None or not self._budget.try_take(size):
            return flight
        return self._start(key, size, work, taken=True)

    def _start(
        self, key: Hashable, size: int, work: Callable[[], Coroutine[Any, Any, T]], *, taken: bool
    ) -> asyncio.Task[T]:
        assert not self.is_closed
        flight = self._tasks.spawn(self._run(size, work, taken=taken), name=f"flight {key}")
        self._flights[key] = flight
        flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    async def _run(
        self, size: int, work: Callable[[], Coroutine[Any, Any, T]], *, taken: bool
    ) -> T:
        if not taken:
            await self._budget.take(size)
        try:
            return await work()
        finally:
            self._budget.give(size)

    def _landed(self, key: Hashable, flight: asyncio.Task[T]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            flight.exception()  # Whoever waits hears of it; perhaps nobody does.

    async def close(self) -> None:
        self.is_closed = True
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
