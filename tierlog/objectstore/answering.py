"""Whether the store answers: counts the requests that it had an answer to.

"There is no such object" is an answer; a failure, and a write of which nobody knows whether it
happened, are none. Whoever did some work tells by this number whether the store was part of it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tierlog.objectstore.around import Around, Request
from tierlog.objectstore.errors import NoSuchObject, ObjectChanged
from tierlog.objectstore.port import ObjectStore, Outcome, Written

T = TypeVar("T")


class Answering(Around):
    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.answer_count = 0

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        try:
            answer = await call()
        except (NoSuchObject, ObjectChanged):
            self.answer_count += 1
            raise
        if not isinstance(answer, Written) or answer.outcome is not Outcome.AMBIGUOUS:
            self.answer_count += 1
        return answer
