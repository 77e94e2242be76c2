"""A store that goes wrong on demand, for tests beside real stores.

`plan` is asked about every request and names its trouble. Some troubles are what stores do
(no answer, a late one); the others break promises of the port, as some stores do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from enum import Enum, auto
from typing import TypeAlias, TypeVar, cast

from tierlog.env import Rng
from tierlog.objectstore.around import WRITES, Around, Request
from tierlog.objectstore.errors import StoreThrottled, StoreUnavailable
from tierlog.objectstore.port import Body, Got, ObjectStore, Outcome, Written

T = TypeVar("T")


class Trouble(Enum):
    THROTTLED = auto()
    """503 SlowDown; nothing happened."""
    UNANSWERED = auto()
    """500 after it took effect."""
    HANGING = auto()
    """Nothing happens until the time limit."""
    SHORT = auto()
    """A read lacks its last byte, and says nothing."""
    FLIPPED = auto()
    """One bit of a read is wrong."""
    STALE = auto()
    """A read shows what an earlier one showed."""
    LYING = auto()
    """A conditional write takes place whatever stands there."""


Plan: TypeAlias = Callable[[Request], Trouble | None]


def drawn(rng: Rng, shares: dict[Trouble, float]) -> Plan:
    """A plan that gives each trouble its share of all requests."""

    def draw(request: Request) -> Trouble | None:
        point = rng.random()
        for trouble, share in shares.items():
            if point < share:
                return trouble
            point -= share
        return None

    return draw


class Faulty(Around):
    def __init__(
        self, store: ObjectStore, rng: Rng, plan: Plan, *, time_limit_seconds: float = 10.0
    ) -> None:
        super().__init__(store)
        self.plan = plan
        self._rng = rng
        self._time_limit_seconds = time_limit_seconds
        self._shown: dict[Request, Got] = {}

    async def put_if_absent(self, key: str, body: Body) -> Written:
        return await self._go(
            Request("put_if_absent", key, body.size),
            lambda: self._store.put_if_absent(key, body),
            lie=lambda: self._store.put(key, body),
        )

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        return await self._go(
            Request("put_if_match", key, body.size),
            lambda: self._store.put_if_match(key, body, etag=etag),
            lie=lambda: self._store.put(key, body),
        )

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        return await self._go(request, call, lie=call)

    async def _go(
        self,
        request: Request,
        call: Callable[[], Awaitable[T]],
        *,
        lie: Callable[[], Awaitable[T]],
    ) -> T:
        trouble = self.plan(request)
        if trouble is Trouble.HANGING:
            await asyncio.sleep(self._time_limit_seconds)
        if trouble in (Trouble.THROTTLED, Trouble.HANGING):
            return cast("T", _unanswered(request, trouble))
        answer = await (lie() if trouble is Trouble.LYING else call())
        if trouble is Trouble.UNANSWERED:
            return cast("T", _unanswered(request, trouble))
        if isinstance(answer, Got):
            return cast("T", self._spoil(request, answer, trouble))
        return answer

    def _spoil(self, request: Request, got: Got, trouble: Trouble | None) -> Got:
        if trouble is Trouble.STALE:
            return self._shown.get(request, got)
        self._shown[request] = got
        if trouble is Trouble.SHORT:
            return replace(got, data=got.data[:-1], crcs=())
        if trouble is Trouble.FLIPPED and got.data:
            data = bytearray(got.data)
            data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
            return replace(got, data=bytes(data), crcs=())
        return got


def _unanswered(request: Request, trouble: Trouble) -> Written:
    """What is heard in place of an answer; raises where no outcome can be given."""
    if request.name in WRITES:
        return Written(outcome=Outcome.AMBIGUOUS, detail=trouble.name.lower())
    if trouble is Trouble.THROTTLED:
        raise StoreThrottled(f"503 for {request.name} of {request.key}: slow down")
    raise StoreUnavailable(f"no answer for {request.name} of {request.key}")
