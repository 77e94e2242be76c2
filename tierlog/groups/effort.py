"""How long a piece of work ran, apart from how long it waited.

Whoever keeps to a share of a core must not count the time in which a store was silent, nor that of
others who had their turn: after a minute of silence it would rest for an hour.
"""

from __future__ import annotations

from functools import partial
from types import coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from tierlog.env import Clock

P = ParamSpec("P")
T = TypeVar("T")


class Effort:
    """Sums up the time in which somebody's work ran."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pieces: list[float] = []
        """Of threads, too: appending is safe there, adding up is not."""

    @property
    def seconds(self) -> float:
        return sum(self._pieces)

    async def count(self, work: Coroutine[Any, Any, T]) -> T:
        """Await it, and count its steps. Tasks and threads that it starts count for themselves."""
        result: T = await self._steps(work)
        return result

    def counted(self, call: Callable[P, T]) -> Callable[P, T]:
        """The same call, for a thread."""

        def counting(*args: P.args, **options: P.kwargs) -> T:
            began = self._clock.monotonic()
            try:
                return call(*args, **options)
            finally:
                self._pieces.append(self._clock.monotonic() - began)

        return counting

    @coroutine
    def _steps(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        step: Callable[[], Any] = partial(work.send, None)
        while True:
            began = self._clock.monotonic()
            try:
                waits_for = step()
            except StopIteration as stop:
                result: T = stop.value
                return result
            finally:
                self._pieces.append(self._clock.monotonic() - began)
            try:
                step = partial(work.send, (yield waits_for))
            except GeneratorExit:
                work.close()
                raise
            except BaseException as fault:  # noqa: BLE001 - the work itself handles it.
                step = partial(work.throw, fault)
