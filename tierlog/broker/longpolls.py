"""Requests that only wait for something to happen, and what becomes of them when the node stops.

A fetch may wait for half a minute for records that nobody writes. A node that stops does not wait
for that: it lets each of them finish with what there is.
"""

import asyncio
from collections.abc import Callable

Finish = Callable[[], None]
"""Answers a request that waits; does nothing once it is answered."""


class LongPolls:
    """See the module."""

    __slots__ = ("_is_over", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[Finish, None] = {}  # an ordered set
        self._is_over = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, finish: Finish) -> None:
        """Somebody waits; whoever adds it discards it when it is answered."""
        self._waiting[finish] = None
        if self._is_over:
            self.finish_all()

    def discard(self, finish: Finish) -> None:
        self._waiting.pop(finish, None)

    def finish_all(self) -> None:
        """Nobody waits any longer, nor from now on. Each has a turn of the loop to itself."""
        self._is_over = True
        loop = asyncio.get_running_loop()
        for finish in self._waiting:
            loop.call_soon(finish)
        self._waiting.clear()
