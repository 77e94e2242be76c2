"""Counts what is asked of a store: requests, bytes, errors and seconds, by kind.

What a store bills and what an operator watches. `StoreStats` are plain numbers that anybody may
read at any time.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tierlog.env import Clock
from tierlog.objectstore.around import Around, Request
from tierlog.objectstore.errors import NoSuchObject, StoreError, StoreThrottled
from tierlog.objectstore.port import Got, ObjectStore, Outcome, Written

T = TypeVar("T")

KIND_OF = {
    "get": "get",
    "get_tail": "get",
    "head": "head",
    "put": "put",
    "put_if_absent": "put",
    "put_if_match": "put",
    "begin_upload": "put",
    "complete_upload": "put",
    "put_part": "part",
    "list": "list",
    "list_uploads": "list",
    "delete": "delete",
    "abort_upload": "delete",
    "copy": "copy",
}
KINDS = ("get", "head", "put", "list", "delete", "part", "copy")


@dataclass(slots=True)
class KindStats:
    requests: int = 0
    bytes: int = 0
    """Read or written, of bodies."""
    errors: int = 0
    """Requests without a clear answer or refused; what is not there or lost is none."""
    throttled: int = 0
    """Of the errors."""
    lost: int = 0
    """Conditional writes that somebody else won."""
    seconds: float = 0.0


@dataclass(slots=True)
class StoreStats:
    kinds: dict[str, KindStats] = field(default_factory=lambda: {k: KindStats() for k in KINDS})

    def of(self, kind: str) -> KindStats:
        return self.kinds[kind]


class Counted(Around):
    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        super().__init__(store)
        self.stats = StoreStats()
        self._clock = clock

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        kind = self.stats.of(KIND_OF[request.name])
        begun = self._clock.monotonic()
        try:
            answer = await call()
        except BaseException as trouble:
            _count_trouble(kind, trouble)
            if isinstance(trouble, StoreError):
                for also in trouble.also_asked:
                    self.stats.of(also).requests += 1
            raise
        else:
            _count_answer(kind, request, answer)
            return answer
        finally:
            kind.seconds += self._clock.monotonic() - begun


def _count_trouble(kind: KindStats, trouble: BaseException) -> None:
    kind.requests += 1
    # One that was cancelled has no clear answer either.
    if not isinstance(trouble, NoSuchObject):
        kind.errors += 1
    if isinstance(trouble, StoreThrottled):
        kind.throttled += 1


def _count_answer(kind: KindStats, request: Request, answer: object) -> None:
    if answer is None and request.page:
        return  # A listing came to its end, which asks nobody.
    kind.requests += 1
    kind.bytes += request.size
    if isinstance(answer, Got):
        kind.bytes += len(answer.data)
    elif isinstance(answer, Written):
        kind.errors += answer.outcome is Outcome.AMBIGUOUS
        kind.lost += answer.outcome is Outcome.LOST
