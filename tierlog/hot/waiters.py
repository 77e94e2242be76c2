"""Futures that wait for an end of a log, woken in order of the ends they wait for."""

import asyncio
from bisect import insort
from collections import deque
from operator import itemgetter

from tierlog.types import Offset

BY_END = itemgetter(0)


class Waiters:
    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[Offset, asyncio.Future[None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end: Offset, future: asyncio.Future[None]) -> None:
        if not self._waiting or self._waiting[-1][0] <= end:
            self._waiting.append((end, future))
        else:  # Whoever asks for a duplicate waits for an end that others have passed.
            insort(self._waiting, (end, future), key=BY_END)

    def wake(self, end: Offset) -> None:
        """Everything below `end` is there."""
        while self._waiting and self._waiting[0][0] <= end:
            resolve(self._waiting.popleft()[1])

    def fail(self, fault: Exception) -> None:
        """Nobody will be woken any more."""
        while self._waiting:
            reject(self._waiting.popleft()[1], fault)


def resolve(future: asyncio.Future[None]) -> None:
    if not future.done():  # Whoever waited may have given up.
        future.set_result(None)


def reject(future: asyncio.Future[None], fault: Exception) -> None:
    if not future.done():
        future.set_exception(fault)
