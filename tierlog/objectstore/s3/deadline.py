"""Until when a call is wanted. Made on the loop, looked at by the thread that does the work."""

from tierlog.env import Clock
from tierlog.objectstore.errors import StoreUnavailable


class Deadline:
    __slots__ = ("_clock", "_until")

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._until = clock.monotonic() + limit_s

    def drop(self) -> None:
        """Nobody waits any more: the thread stops at its next look."""
        self._until = float("-inf")

    def check(self) -> None:
        if self._clock.monotonic() > self._until:
            raise StoreUnavailable("the call took longer than its time limit and was given up")
