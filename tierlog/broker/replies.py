"""Replies that wait for their turn.

Kafka's clients match answers to requests by order as much as by number: on one connection replies
leave in the order of the requests. A request that is not answered at once gets a slot here, and so
does everything behind it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from tierlog.broker.limits import REQUEST_ELEMENTS_MAX
from tierlog.broker.request import CloseConnection, Parts
from tierlog.env import mapped_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierlog.broker.request import Answer

PENDING_BYTES: Final = 3 * 1024
"""What a request under way costs beside its own bytes: a future, a task, decoded values. A fetch
that waits for one partition was seen to take 3 KB."""
DECODED_FACTOR: Final = 15
"""What decoded values take for each byte that listed them: a partition of a Fetch is some 25 bytes,
and 400 when it is decoded and waits."""
DECODED_BYTES_MAX: Final = REQUEST_ELEMENTS_MAX * 400
"""A larger request lists no more; its bytes are long names, or batches."""


class _Slot:
    __slots__ = ("_replies", "answer", "held", "mapped")

    def __init__(self, answer: Answer, replies: Replies) -> None:
        self.answer = answer
        self.held = self.mapped = 0
        self._replies: Replies | None = replies

    def answered(self, _: object) -> None:
        if self._replies is not None:
            self._replies.answered(self)

    def forget(self) -> None:
        self._replies = None

    @property
    def is_ready(self) -> bool:
        return not isinstance(self.answer, asyncio.Future) or self.answer.done()


class Replies:
    """See the module. `held` is what the requests and replies in here cost; it is 0 when there are
    none. `mapped` of that are slices of files, which hold no memory."""

    __slots__ = ("_on_ready", "_slots", "held", "mapped")

    def __init__(self, on_ready: Callable[[], None]) -> None:
        self._slots: deque[_Slot] = deque()
        self._on_ready = on_ready
        self.held = self.mapped = 0

    @property
    def count(self) -> int:
        return len(self._slots)

    def add(self, answer: Answer, *, request_bytes: int, is_produce: bool) -> None:
        """Take a place at the end. `on_ready` is called when a future here is done."""
        slot = _Slot(answer, self)
        if isinstance(answer, asyncio.Future):
            slot.held = request_bytes + PENDING_BYTES
            if not is_produce:  # Whose bytes are batches, and in the log by now.
                slot.held += min(request_bytes * DECODED_FACTOR, DECODED_BYTES_MAX)
            self.held += slot.held
            answer.add_done_callback(slot.answered)
        else:
            self._weigh(slot, answer)
        self._slots.append(slot)

    def answered(self, slot: _Slot) -> None:
        """One of the futures is done. Behind others its reply waits and costs what it holds."""
        if slot is not self._slots[0]:
            future = cast("asyncio.Future[Parts | None]", slot.answer)
            if not future.cancelled() and future.exception() is None:
                self._weigh(slot, future.result())
        self._on_ready()

    def _weigh(self, slot: _Slot, parts: Parts | None) -> None:
        held = sum(map(len, parts or ())) + PENDING_BYTES
        mapped = mapped_bytes(parts or ())
        self.held += held - slot.held
        self.mapped += mapped - slot.mapped
        slot.held, slot.mapped = held, mapped

    def ready(self) -> Iterator[Parts]:
        """Take the replies whose turn it is. Raises what a handler raised, in its turn."""
        slots = self._slots
        while slots and slots[0].is_ready:
            slot = slots.popleft()
            self.held -= slot.held
            self.mapped -= slot.mapped
            slot.forget()
            if parts := _parts_of(slot.answer):
                yield parts

    def cancel(self) -> None:
        """Nobody waits for any of these."""
        slots, self._slots = self._slots, deque()
        self.held = self.mapped = 0
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
