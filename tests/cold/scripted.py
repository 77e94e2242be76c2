"""A store in memory whose next conditional writes go wrong in a given way."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from enum import Enum, auto

from tierlog.env import Clock
from tierlog.objectstore.body import BytesBody, read_body
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Body, Got, Outcome, Span, Stat, Written

AMBIGUOUS = Written(outcome=Outcome.AMBIGUOUS, detail="500")


class Fate(Enum):
    """What becomes of a conditional write."""

    FINE = auto()
    REQUEST_LOST = auto()
    """It does not arrive; the sender hears nothing."""
    ANSWER_LOST = auto()
    """It is done; the sender hears nothing."""
    OWN_SUCCESS_REFUSED = auto()
    """It is done, sent again by somebody below, and that second try is answered 412."""
    LATE = auto()
    """The sender hears nothing; it arrives when `land` is called."""


class ScriptedStore(MemoryStore):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.fates: deque[Fate] = deque()
        """Of the next conditional writes, in order; then all is fine."""
        self.only = ""
        """Keys that the fates are for end with this."""
        self.reads_failing = 0
        self.before_write: Callable[[], Awaitable[None]] | None = None
        """Called once, when the next conditional write leaves: somebody else is faster."""
        self.writes: deque[str] = deque()
        self.calls = 0
        """So many requests were made."""
        self._death: tuple[int, Exception, bool] | None = None
        self._late: deque[Callable[[], Awaitable[Written]]] = deque()

    def die(self, number: int, error: Exception, *, after: bool) -> None:
        """Whoever makes this request does not live to hear the answer; once."""
        self._death = number, error, after

    def _begin(self) -> Exception | None:
        """Raises if the caller dies before the request leaves; returns what it dies of later."""
        number, self.calls = self.calls, self.calls + 1
        if self._death is None or self._death[0] != number:
            return None
        (_, error, after), self._death = self._death, None
        if not after:
            raise error
        return error

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        self._read()
        return await super().get(key, span=span, etag=etag, version_id=version_id)

    async def get_tail(self, key: str, size: int) -> Got:
        self._read()
        return await super().get_tail(key, size)

    async def head(self, key: str, *, version_id: str | None = None) -> Stat:
        self._read()
        return await super().head(key, version_id=version_id)

    async def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Stat]]:
        self._read()
        async for page in super().list(prefix, after=after):
            yield page

    def _read(self) -> None:
        death = self._begin()
        if death is not None:
            raise death
        if self.reads_failing:
            self.reads_failing -= 1
            raise StoreUnavailable("503")

    async def put_if_absent(self, key: str, body: Body) -> Written:
        data = BytesBody(read_body(body))
        put = super().put_if_absent
        return await self._conditional(key, lambda: put(key, data))

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        data = BytesBody(read_body(body))
        put = super().put_if_match
        return await self._conditional(key, lambda: put(key, data, etag=etag))

    async def _conditional(self, key: str, put: Callable[[], Awaitable[Written]]) -> Written:
        faster, self.before_write = self.before_write, None
        if faster is not None:
            await faster()
        self.writes.append(key)
        death = self._begin()
        await asyncio.sleep(0)
        fate = self.fates.popleft() if self.fates and key.endswith(self.only) else Fate.FINE
        if fate is Fate.LATE:
            self._late.append(put)
        if fate in (Fate.LATE, Fate.REQUEST_LOST):
            return AMBIGUOUS
        written = await put()
        if death is not None:
            raise death
        if fate is Fate.OWN_SUCCESS_REFUSED:
            return Written(outcome=Outcome.LOST, detail="412")
        return AMBIGUOUS if fate is Fate.ANSWER_LOST else written

    async def land(self) -> Sequence[Outcome]:
        """What was late arrives; the answers that nobody hears."""
        late, self._late = self._late, deque()
        return [(await put()).outcome for put in late]
