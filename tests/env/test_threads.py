"""Calls in threads: every outcome comes back, and nothing is left behind."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest

from tierlog.env.threads import Threads

PATIENCE_S = 60


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(2, name="test")
    yield threads
    threads.close()


async def test_as_many_calls_as_threads_run_at_once_and_the_rest_in_order(
    threads: Threads,
) -> None:
    together = threading.Barrier(3)
    first = [threads.call(together.wait, PATIENCE_S) for _ in range(2)]
    ran: list[int] = []
    later = [threads.call(ran.append, number) for number in range(5)]
    await asyncio.sleep(0)
    assert ran == [], "both threads wait"
    await asyncio.to_thread(together.wait, PATIENCE_S)
    await asyncio.gather(*first, *later)
    assert sorted(ran) == list(range(5))


async def test_threads_begin_when_they_are_needed(threads: Threads) -> None:
    before = threading.active_count()
    for _ in range(5):
        await threads.call(threading.get_ident)
        assert threading.active_count() == before + 1
    gate = threading.Event()
    waiting = [threads.call(gate.wait, PATIENCE_S) for _ in range(4)]
    assert threading.active_count() == before + 2
    gate.set()
    assert all(await asyncio.gather(*waiting))


async def test_a_failure_reaches_whoever_waits_and_the_thread_goes_on(threads: Threads) -> None:
    with pytest.raises(SystemExit):
        await threads.call(sys.exit, 3)
    assert await threads.call(threading.get_ident)


async def test_a_call_that_is_cancelled_before_its_turn_is_not_run(threads: Threads) -> None:
    gate, ran = threading.Event(), threading.Event()
    running = [threads.call(gate.wait, PATIENCE_S) for _ in range(2)]
    given_up = threads.call(ran.set)
    given_up.cancel()
    gate.set()
    assert all(await asyncio.gather(*running))
    await asyncio.gather(*(threads.call(threading.get_ident) for _ in range(4)))
    assert not ran.is_set()


async def test_a_call_that_is_cancelled_while_it_runs_disturbs_nobody(threads: Threads) -> None:
    begun, gate = threading.Event(), threading.Event()

    def work() -> bool:
        begun.set()
        return gate.wait(PATIENCE_S)

    given_up = threads.call(work)
    assert await threads.call(begun.wait, PATIENCE_S)
    given_up.cancel()
    gate.set()
    for _ in range(4):
        assert await threads.call(threading.get_ident)
    assert given_up.cancelled()


async def test_an_idle_thread_keeps_nothing_alive(threads: Threads) -> None:
    class Large:
        def look(self) -> "Large":
            return self

    large = Large()
    gone = weakref.ref(large)
    await threads.call(large.look)
    del large
    await threads.call(gc.collect)
    await threads.call(threading.get_ident)  # Another turn: the thread waits again by then.
    assert gone() is None


async def test_close_waits_for_what_was_called_and_takes_no_more() -> None:
    threads = Threads(1, name="test")
    before = threading.active_count()
    ran: list[int] = []
    for number in range(20):
        threads.call(ran.append, number)
    threads.close()
    assert (ran, threading.active_count()) == (list(range(20)), before)
    with pytest.raises(RuntimeError):
        threads.call(ran.append, 20)


def test_a_loop_that_is_gone_does_not_hold_a_thread(threads: Threads) -> None:
    gate = threading.Event()

    async def leave() -> None:
        threads.call(gate.wait, PATIENCE_S)

    async def come_back() -> int:
        return await threads.call(threading.get_ident)

    asyncio.run(leave())
    gate.set()
    assert all(asyncio.run(come_back()) for _ in range(4))


FORGETFUL = """
import asyncio, threading
from tierlog.env.threads import Threads

async def main():
    threads = Threads(2, name="test")
    await threads.call(threading.get_ident)
    threads.call(threading.Event().wait)

asyncio.run(main())
"""


def test_a_process_that_forgets_to_close_ends_all_the_same() -> None:
    subprocess.run([sys.executable, "-c", FORGETFUL], timeout=PATIENCE_S, check=True)
