"""Asks again when a store did not answer.

Only what is the same twice: reads, deletions, parts. A conditional write is sent once, whatever
becomes of it, for a repetition would lose against its own first try; whoever asked reads back.
Pauses grow, with full jitter, so that many clients of one store in trouble do not knock together.

All calls share a quota of repetitions, which failures use up and successes earn back slowly. Where
much fails it is soon empty, and every call is sent once: a store in trouble gets the load that it
has anyway, not six times as much. A fault here and there is repeated as ever.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tierlog.env import Env
from tierlog.objectstore.around import WRITES, Around, Request
from tierlog.objectstore.errors import StoreError, StoreThrottled, StoreUnavailable
from tierlog.objectstore.port import ObjectStore, Stat

T = TypeVar("T")

SENT_ONCE = WRITES | {"list", "list_uploads"}
"""Listings are taken up again page by page; a broken iterator cannot be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    attempts_max: int = 6
    seconds_max: float = 60.0
    """No attempt begins later than this after the first."""
    pause_seconds: float = 0.1
    """The longest first pause; each next one may be twice as long."""
    pause_seconds_max: float = 5.0
    throttled_factor: float = 4.0
    """A store that asks to be asked less often is given more time."""

    quota: float = 500.0
    """A hundred repetitions at once, over all calls."""
    repetition_cost: float = 5.0
    """A call that succeeds at once earns 1: in the long run one repetition for five of them."""

    def pause(self, attempt: int, trouble: StoreUnavailable) -> float:
        factor = self.throttled_factor if isinstance(trouble, StoreThrottled) else 1.0
        return min(self.pause_seconds * factor * 2.0**attempt, self.pause_seconds_max)


class RetryQuota:
    """Invariant: 0 <= left <= limit."""

    __slots__ = ("_limit", "left", "refused")

    def __init__(self, patience: Patience) -> None:
        self._limit = patience.quota
        self.left = self._limit
        self.refused = 0
        """Repetitions that were not made."""

    def take(self, cost: float) -> bool:
        if self.left < cost:
            self.refused += 1
            return False
        self.left -= cost
        return True

    def earn(self, size: float) -> None:
        self.left = min(self._limit, self.left + size)


class Retrying(Around):
    def __init__(self, store: ObjectStore, env: Env, patience: Patience | None = None) -> None:
        super().__init__(store)
        self._env = env
        self._patience = patience or Patience()
        self.quota = RetryQuota(self._patience)

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        if request.name in SENT_ONCE:
            return await call()
        return await self._persist(call)

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        patience, clock = self._patience, self._env.clock
        end = clock.monotonic() + patience.seconds_max
        for attempt in range(patience.attempts_max - 1):
            try:
                return await self._earning(call, attempt)
            except StoreUnavailable as trouble:
                pause = self._env.rng.random() * patience.pause(attempt, trouble)
                if clock.monotonic() + pause > end:
                    raise
                if not self.quota.take(patience.repetition_cost):
                    raise
            await asyncio.sleep(pause)
        return await self._earning(call, patience.attempts_max - 1)

    async def _earning(self, call: Callable[[], Awaitable[T]], attempt: int) -> T:
        """What a repetition that helped has cost is given back."""
        try:
            answer = await call()
        except StoreUnavailable:
            raise
        except StoreError:
            self._earn(attempt)  # An answer, if not the one that was hoped for.
            raise
        self._earn(attempt)
        return answer

    def _earn(self, attempt: int) -> None:
        self.quota.earn(self._patience.repetition_cost if attempt else 1.0)

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        last = after
        pages: AsyncIterator[Sequence[Stat]] | None = None

        async def turn() -> Sequence[Stat] | None:
            nonlocal pages
            if pages is None:
                pages = self._store.list(prefix, after=last)
            try:
                return await anext(pages, None)
            except StoreUnavailable:
                pages = None  # An iterator that raised is over: begin a new one behind `last`.
                raise

        while (page := await self._persist(turn)) is not None:
            yield page
            last = page[-1].key if page else last
