"""Threads for calls that block in the kernel, with a short way there and back.

A call goes to a thread through a queue, and what became of it comes back as one callback of the
loop: 9 us of the loop's time, where a pool of the standard library took 29 for its locks and its
two futures. A node that syncs makes a thousand such calls a second.

A thread begins when a call finds all others busy, until there are `count`. They are daemons:
whoever forgets `close` shall still be able to leave.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

Call = tuple["asyncio.Future[Any]", asyncio.AbstractEventLoop, Callable[..., Any], tuple[Any, ...]]


class Threads:
    """See the module. Calls come from a running loop, `close` from anywhere."""

    def __init__(self, count: int, *, name: str) -> None:
        self._count = count
        self._name = name
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        """Calls under way, as the loop knows it."""
        self._is_closed = False

    def start_all(self) -> None:
        """Now. Else each begins with a call that needs it, and whoever makes that call waits until
        it runs: 15 ms each in a profile of a busy node."""
        while len(self._threads) < self._count:
            self._start_one()

    def call(self, call: Callable[..., T], *args: object) -> "asyncio.Future[T]":
        """Run it in a thread. One that is cancelled before its turn is not run."""
        if self._is_closed:
            raise RuntimeError("the threads were closed")
        self._busy += 1
        if self._busy > len(self._threads) < self._count:
            self._start_one()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put((future, loop, call, args))
        return future

    def close(self) -> None:
        """Wait for what was called, and end the threads."""
        self._is_closed = True
        threads, self._threads = self._threads, []
        for _ in threads:
            self._calls.put(None)
        for thread in threads:
            thread.join()

    def _start_one(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        thread.start()  # Raises where the machine refuses: then it is not one of ours.
        self._threads.append(thread)

    def _resolve(self, future: "asyncio.Future[Any]", result: object) -> None:
        self._busy -= 1
        if not future.done():  # Whoever waited may have given up.
            future.set_result(result)

    def _reject(self, future: "asyncio.Future[Any]", fault: BaseException) -> None:
        self._busy -= 1
        if not future.done():
            future.set_exception(fault)

    # In a thread

    def _serve(self) -> None:
        while (given := self._calls.get()) is not None:
            self._run(*given)
            del given  # Or an idle thread would keep the last call, and what it holds, alive.

    def _run(
        self,
        future: "asyncio.Future[Any]",
        loop: asyncio.AbstractEventLoop,
        call: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        try:
            result = None if future.cancelled() else call(*args)
        except BaseException as fault:  # noqa: BLE001 - it reaches whoever waits.
            _tell(loop, self._reject, future, fault)
        else:
            _tell(loop, self._resolve, future, result)


def _tell(
    loop: asyncio.AbstractEventLoop, hear: Callable[..., None], future: object, what: object
) -> None:
    try:
        loop.call_soon_threadsafe(hear, future, what)
    except RuntimeError:  # The loop is closed, and nobody waits any more.
        return
