"""What a node asks of its store, seen from outside: requests, bytes, and round trips in a row.

A wrapper of the store port, put in by `benchmarks.node`. It may also make every GET slower, as a
far store is: the time is spent while the request holds one of the store's connections, so that no
more requests can be under way than there are of those.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tierlog.objectstore.around import Around, Request
from tierlog.objectstore.port import Got, ObjectStore
from tierlog.objectstore.s3 import S3Settings

T = TypeVar("T")

GETS = frozenset({"get", "get_tail"})
CONNECTIONS = S3Settings().reads_max


class Watched(Around):
    """Counts since the last `taken`. A GET that begins after another one has ended is one round
    trip further: what could be asked at once counts once."""

    def __init__(self, store: ObjectStore, *, get_delay_s: float = 0.0) -> None:
        super().__init__(store)
        self._delay_s = get_delay_s
        self._connections = asyncio.Semaphore(CONNECTIONS)
        self._counts: Counter[str] = Counter()
        self._trips = 0

    def taken(self) -> dict[str, int]:
        """By name of the request; `trips` are GETs in a row, `get_bytes` what they brought."""
        counts, trips = dict(self._counts), self._trips
        self._counts.clear()
        self._trips = 0
        return {**counts, "trips": trips}

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        self._counts[request.name] += 1
        if request.name not in GETS:
            self._counts["put_bytes"] += request.size
            return await call()
        trip = self._trips + 1
        answer = await (self._delayed(call) if self._delay_s else call())
        self._trips = max(self._trips, trip)
        assert isinstance(answer, Got)
        self._counts["get_bytes"] += len(answer.data)
        return answer

    async def _delayed(self, call: Callable[[], Awaitable[T]]) -> T:
        async with self._connections:
            await asyncio.sleep(self._delay_s)
            return await call()
