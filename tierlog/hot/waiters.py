"""Who waits for an end of a log, woken in order of the ends they wait for.

Futures, or what is told in their place: in the same turn, and without a callback of the loop.

Those who gave up are swept out when the queue has doubled since the last time: no callback on each
future, and at most as many of them as of the others (and `SWEEP_MIN`) are kept.
"""

from bisect import insort
from collections import deque
from operator import itemgetter
from typing import Protocol

from tierlog.types import Offset

BY_END = itemgetter(0)
SWEEP_MIN = 32


class Waiter(Protocol):
    """What is told when an end is reached: a future, or whoever is like one.

    It may be told in the middle of an append or of a sync's end: it makes its answer, and calls
    nothing of the log.
    """

    def done(self) -> bool:
        """Whether it was told, or gave up."""
        ...

    def set_result(self, result: None, /) -> None: ...

    def set_exception(self, exception: Exception, /) -> None: ...


class Waiters:
    __slots__ = ("_sweep_at", "waiting")

    def __init__(self) -> None:
        self._sweep_at = SWEEP_MIN
        self.waiting: deque[tuple[Offset, Waiter]] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, end: Offset, waiter: Waiter) -> None:
        if len(self.waiting) >= self._sweep_at:
            self._sweep()
        if not self.waiting or self.waiting[-1][0] <= end:
            self.waiting.append((end, waiter))
        else:  # Whoever asks for a duplicate waits for an end that others have passed.
            insort(self.waiting, (end, waiter), key=BY_END)

    def _sweep(self) -> None:
        self.waiting = deque(one for one in self.waiting if not one[1].done())
        self._sweep_at = max(SWEEP_MIN, 2 * len(self.waiting))

    def wake(self, end: Offset) -> None:
        """Everything below `end` is there."""
        while self.waiting and self.waiting[0][0] <= end:
            resolve(self.waiting.popleft()[1])

    def fail(self, fault: Exception) -> None:
        """Nobody will be woken any more."""
        while self.waiting:
            reject(self.waiting.popleft()[1], fault)


def resolve(waiter: Waiter) -> None:
    if not waiter.done():  # Whoever waited may have given up.
        waiter.set_result(None)


def reject(waiter: Waiter, fault: Exception) -> None:
    if not waiter.done():
        waiter.set_exception(fault)
