"""A long walk in short turns, so that nobody who waits for an answer feels it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

T = TypeVar("T")


async def in_turns(items: Iterable[T], count: int = 200) -> AsyncIterator[T]:
    """The items, with a turn for everybody else after each `count` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % count == 0:
            await asyncio.sleep(0)


class Turns:
    """The same for steps of different lengths."""

    __slots__ = ("_count", "_left")

    def __init__(self, count: int) -> None:
        self._count = self._left = count

    async def spend(self, count: int) -> None:
        """So much was done."""
        self._left -= count
        if self._left <= 0:
            self._left = self._count
            await asyncio.sleep(0)
