"""Replies that wait for their turn.

Kafka's clients match answers to requests by order as much as by number: on one connection replies
leave in the order of the requests. A request that is not answered at once gets a slot here, and so
does everything behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from tierlog.broker.request import CloseConnection, Parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierlog.broker.request import Answer

PENDING_BYTES: Final = 3 * 1024
"""What a request under way costs beside its own bytes: a future, a task, decoded values. A fetch
that waits for one partition was seen to take 3 KB."""


class _Slot:
    __slots__ = ("_on_ready", "answer", "held")

    def __init__(self, answer: Answer, held: int, on_ready: Callable[[], None]) -> None:
        self.answer = answer
        self.held = held
        self._on_ready: Callable[[], None] | None = on_ready

    def answered(self, _: object) -> None:
        if self._on_ready is not None:
            self._on_ready()

    def forget(self) -> None:
        self._on_ready = None

    @property
    def is_ready(self) -> bool:
        return not isinstance(self.answer, asyncio.Future) or self.answer.done()


class Replies:
    """See the module. `held` is what the requests and replies in here cost; it is 0 when there are
    none."""

    __slots__ = ("_on_ready", "_slots", "held")

    def __init__(self, on_ready: Callable[[], None]) -> None:
        self._slots: deque[_Slot] = deque()
        self._on_ready = on_ready
        self.held = 0

    @property
    def count(self) -> int:
        return len(self._slots)

    def add(self, answer: Answer, *, request_bytes: int) -> None:
        """Take a place at the end. `on_ready` is called when a future here is done."""
        if isinstance(answer, asyncio.Future):
            slot = _Slot(answer, request_bytes + PENDING_BYTES, self._on_ready)
            answer.add_done_callback(slot.answered)
        else:
            size = sum(map(len, answer)) if answer else 0
            slot = _Slot(answer, size + PENDING_BYTES, self._on_ready)
        self.held += slot.held
        self._slots.append(slot)

    def ready(self) -> Iterator[Parts]:
        """Take the replies whose turn it is. Raises what a handler raised, in its turn."""
        slots = self._slots
        while slots and slots[0].is_ready:
            slot = slots.popleft()
            self.held -= slot.held
            slot.forget()
            if parts := _parts_of(slot.answer):
                yield parts

    def cancel(self) -> None:
        """Nobody waits for any of these."""
        slots, self._slots = self._slots, deque()
        self.held = 0
        for slot in slots:
            slot.forget()
            if isinstance(slot.answer, asyncio.Future):
                _give_up(slot.answer)


def _parts_of(answer: Answer) -> Parts | None:
    if not isinstance(answer, asyncio.Future):
        return answer
    if answer.cancelled():
        raise CloseConnection("the request was given up")
    return answer.result()


def _give_up(future: asyncio.Future[Parts | None]) -> None:
    if not future.cancel() and not future.cancelled():
        cast("object", future.exception())  # Looked at: nobody else will, and asyncio would log it.
