"""Tasks, threads and worker processes as a port.

`spawn` keeps a reference to every task, so none is collected half way, and hands an exception that
nobody awaited to the loop's exception handler. `in_thread` is for calls that block in the kernel
(fdatasync, unlink of a large file); `in_process` for bulk CPU work, and takes only what can be
pickled. Under simulation both run on the simulated loop after a drawn delay.
"""

import asyncio
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any, Protocol, TypeVar

from tierlog.env.threads import Threads

T = TypeVar("T")

WORKER_NICE = 5
"""A third of a share, beside somebody who wants all of a processor."""


class Tasks(Protocol):
    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]: ...

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]: ...

    def in_process(
        self, call: Callable[..., T], *args: object, limit_s: float | None = None
    ) -> asyncio.Future[T]:
        """`limit_s`: from when a worker has it. One that takes longer hangs, and is ended."""
        ...


WorkerLost = BrokenExecutor
"""Raised by what `in_process` answers: somebody ended the worker. Another one begins with the next
call."""


class LocalTasks:
    """The running loop, threads and, once asked for, a process pool."""

    def __init__(self, *, thread_count: int = 8, process_count: int = 1) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._threads = Threads(thread_count, name="tierlog")
        self._process_count = process_count
        self._processes: ProcessPoolExecutor | None = None
        self._places = asyncio.Semaphore(process_count)
        """In worker processes: the time of a call counts from when it has one."""

    def start_threads(self) -> None:
        """All of them now, so that no call waits for one to begin."""
        self._threads.start_all()

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        return self._threads.call(call, *args)

    def in_process(
        self, call: Callable[..., T], *args: object, limit_s: float | None = None
    ) -> asyncio.Future[T]:
        return self.spawn(self._in_worker(call, args, limit_s), name="worker process")

    async def _in_worker(
        self, call: Callable[..., T], args: tuple[object, ...], limit_s: float | None
    ) -> T:
        await self._places.acquire()
        # Whoever asked may give up; the place is taken until the worker is done with it, or ended.
        watched = self.spawn(self._watched(call, args, limit_s), name="worker process's watch")
        watched.add_done_callback(_unheard)
        return await asyncio.shield(watched)

    async def _watched(
        self, call: Callable[..., T], args: tuple[object, ...], limit_s: float | None
    ) -> T:
        try:
            running = self._given(call, *args)
            # Nobody may be left to hear how it ends: at a stop this task goes before its worker.
            running.add_done_callback(_unheard)
            done, _ = await asyncio.wait([running], timeout=limit_s)
            if not done:
                self._end_workers()
                raise WorkerLost(f"a worker process did not answer for {limit_s:.0f} s")
            return running.result()
        finally:
            self._places.release()

    def end_workers(self) -> None:
        """Without waiting for what they do: whoever asked for it hears `WorkerLost`."""
        self._end_workers()

    def _end_workers(self) -> None:
        """Nobody waits for them: what hangs in the kernel cannot even be killed."""
        pool, self._processes = self._processes, None
        if pool is not None:
            for process in list(pool._processes.values()):
                process.kill()
            pool.shutdown(wait=False)

    def _given(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        try:
            return loop.run_in_executor(self._workers(), call, *args)
        except BrokenExecutor:
            # A worker was killed, and its pool ended with it: another one, once.
            self._processes = None
            return loop.run_in_executor(self._workers(), call, *args)

    def _workers(self) -> ProcessPoolExecutor:
        if self._processes is None:
            # Not forked from here: a child of a process with running threads may inherit a lock
            # that nobody will ever release.
            self._processes = ProcessPoolExecutor(
                self._process_count,
                mp_context=multiprocessing.get_context("forkserver"),
                initializer=begin_worker,
            )
        return self._processes

    def close(self) -> None:
        """Wait for running calls and end the pools. Tasks are their owner's to cancel."""
        self._threads.close()
        if self._processes is not None:
            self._processes.shutdown()


def _unheard(running: asyncio.Future[Any]) -> None:
    if not running.cancelled():
        running.exception()


def begin_worker() -> None:
    """Of a worker process: it takes what others leave of the processors, ends with whoever started
    it, and leaves Ctrl-C at a terminal, which all processes hear, to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(WORKER_NICE)
    die_with_parent()


def die_with_parent() -> None:
    """For worker processes. One that is not told to stop, because whoever started it was killed,
    would wait for work for ever: it holds both ends of the queue itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "not a worker process"

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="die with parent", daemon=True).start()
