"""The bytes in flight of a whole node, and who waits for them.

Connections say how much they hold. While that is too much, those that want to take on more wait
in line; they go on one after the other as bytes come back, first come, first served.

Usually what is held comes back by itself: a handler answers, a peer reads. Half-received frames do
not, and could together fill the budget with nobody able to finish. So `tick`, called once a
second, lets one pass when nothing came back since the last time.
"""

import asyncio
from collections.abc import Callable


class Budget:
    """See the module."""

    __slots__ = ("_came_back", "_line", "_wake_scheduled", "bytes_max", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._line: dict[Callable[[], None], None] = {}  # an ordered set
        self._came_back = False
        self._wake_scheduled = False

    @property
    def is_full(self) -> bool:
        return self.used >= self.bytes_max

    @property
    def is_tight(self) -> bool:
        """Whether it may soon be full: the time to look for those who hold it for nothing."""
        return self.used > self.bytes_max // 2

    @property
    def waiting_count(self) -> int:
        return len(self._line)

    def change(self, by: int) -> None:
        self.used += by
        if by < 0:
            self._came_back = True
            if self._line and not self._wake_scheduled:
                # Not from here: the caller is in the middle of something.
                self._wake_scheduled = True
                asyncio.get_running_loop().call_soon(self._wake)

    def wait(self, go_on: Callable[[], None]) -> None:
        """Stand in line; a place once taken is kept."""
        self._line.setdefault(go_on)

    def leave(self, go_on: Callable[[], None]) -> None:
        self._line.pop(go_on, None)

    def tick(self) -> None:
        if self._line and not self._came_back:
            self._pass_first()
        self._came_back = False

    def _wake(self) -> None:
        self._wake_scheduled = False
        # Each gets one turn: who stands in line again does so at its end.
        for _ in range(len(self._line)):
            if self.is_full or not self._line:
                return
            self._pass_first()

    def _pass_first(self) -> None:
        go_on = next(iter(self._line))
        del self._line[go_on]
        go_on()
