"""Tasks, threads and processes of this machine."""

import asyncio
import gc
import operator
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor

import pytest

from tierlog.env import LocalTasks, WorkerLost
from tierlog.env.tasks import WORKER_NICE


@pytest.fixture
def tasks() -> Iterator[LocalTasks]:
    tasks = LocalTasks(thread_count=2)
    yield tasks
    tasks.close()


async def test_spawn_runs_under_its_name(tasks: LocalTasks) -> None:
    async def answer() -> str:
        task = asyncio.current_task()
        assert task is not None
        return task.get_name()

    assert await tasks.spawn(answer(), name="flusher") == "flusher"


async def test_an_error_that_nobody_awaits_reaches_the_loop(tasks: LocalTasks) -> None:
    async def fail() -> None:
        raise KeyError("unheard")

    heard: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: heard.set_result(context["exception"])
    )
    tasks.spawn(fail(), name="fail")
    assert isinstance(await heard, KeyError)


async def test_a_call_in_a_thread_leaves_the_loop_free(tasks: LocalTasks) -> None:
    opened = threading.Event()
    waiting = tasks.in_thread(opened.wait, 60)
    here = threading.get_ident()
    assert await tasks.in_thread(threading.get_ident) != here
    opened.set()
    assert await waiting
    with pytest.raises(ZeroDivisionError):
        await tasks.in_thread(operator.truediv, 1, 0)


async def test_a_worker_yields_to_others_and_leaves_the_terminal_to_its_parent(
    tasks: LocalTasks,
) -> None:
    assert await tasks.in_process(os.nice, 0) == os.nice(0) + WORKER_NICE
    assert await tasks.in_process(signal.getsignal, signal.SIGINT) is signal.SIG_IGN


async def test_a_worker_that_was_killed_is_replaced(tasks: LocalTasks) -> None:
    first = await tasks.in_process(os.getpid)
    with pytest.raises(BrokenExecutor):
        await tasks.in_process(os.kill, first, signal.SIGKILL)
    assert await tasks.in_process(os.getpid) != first


async def test_a_worker_that_hangs_is_ended_and_replaced(tasks: LocalTasks) -> None:
    first = await tasks.in_process(os.getpid)
    pidfd = os.pidfd_open(first)
    hung = tasks.in_process(signal.pause, limit_s=0.0)
    behind = tasks.in_process(os.getpid, limit_s=600.0)
    with pytest.raises(WorkerLost):
        await hung
    assert await behind != first
    ended, _, _ = await tasks.in_thread(select.select, [pidfd], [], [], 60)
    os.close(pidfd)
    assert ended


async def test_a_worker_that_hangs_is_ended_though_nobody_waits_for_it(tasks: LocalTasks) -> None:
    first = await tasks.in_process(os.getpid)
    hung = tasks.in_process(signal.pause, limit_s=0.1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    hung.cancel()
    assert await tasks.in_process(os.getpid) != first


async def test_a_worker_that_a_stop_ends_is_nothing_to_complain_of(tasks: LocalTasks) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    first = await tasks.in_process(os.getpid)
    tasks.in_process(signal.pause)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    # As a loop does that ends: whoever watches the worker is gone when the worker is.
    await _cancelled("worker process")
    tasks.end_workers()
    assert await tasks.in_process(os.getpid) != first
    gc.collect()
    assert not told


async def _cancelled(name: str) -> None:
    """All tasks that are called so; nothing of them is kept."""
    found = [one for one in asyncio.all_tasks() if one.get_name().startswith(name)]
    assert found
    for one in found:
        one.cancel()
    await asyncio.gather(*found, return_exceptions=True)


async def test_a_call_in_a_process_runs_elsewhere(tasks: LocalTasks) -> None:
    await tasks.in_thread(os.getpid)  # A running thread must not hinder the first process.
    assert await tasks.in_process(os.getpid) != os.getpid()
    assert await tasks.in_process(operator.add, 2, 3) == 5
    with pytest.raises(ZeroDivisionError):
        await tasks.in_process(operator.truediv, 1, 0)


WORKER = """
import asyncio, os, signal
from tierlog.env import LocalTasks

async def main():
    tasks = LocalTasks()
    print(await tasks.in_process(os.getpid), flush=True)
    await tasks.in_process(signal.pause)

asyncio.run(main())
"""


def test_a_worker_process_dies_with_whoever_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", WORKER], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        ended, _, _ = select.select([worker], [], [], 30)
        if not ended:
            signal.pidfd_send_signal(worker, signal.SIGKILL)
        assert ended, "it waits for work for ever"
    finally:
        os.close(worker)


def test_threads_that_were_started_are_there_before_the_first_call() -> None:
    tasks = LocalTasks(thread_count=5)
    before = threading.active_count()
    tasks.start_threads()
    assert threading.active_count() == before + 5
    tasks.close()
    assert threading.active_count() == before
