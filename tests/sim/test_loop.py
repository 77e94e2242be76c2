"""Virtual time, drawn order, and asyncio's own tools under it."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from tierlog.sim import SimDeadlock, SimLoop, SimOverrun, SimWorld, simulate
from tierlog.sim.loop import name_of

T = TypeVar("T")

SEEDS = range(30)


def run(work: Callable[[], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    world = SimWorld(seed)
    return world.run(work())


def test_a_year_of_sleep_takes_no_time() -> None:
    async def nap() -> float:
        await asyncio.sleep(365 * 86400)
        return asyncio.get_running_loop().time()

    assert run(nap) == pytest.approx(365 * 86400, abs=0.001)


def test_timers_fire_in_order_of_time() -> None:
    async def order() -> list[int]:
        seen: list[int] = []
        loop = asyncio.get_running_loop()
        for delay in (3, 1, 2):
            loop.call_later(delay, seen.append, delay)
        loop.call_later(1.5, seen.append, 99).cancel()
        await asyncio.sleep(4)
        return seen

    assert {tuple(run(order, seed)) for seed in SEEDS} == {(1, 2, 3)}


def test_ready_callbacks_run_in_every_order() -> None:
    async def order() -> tuple[int, ...]:
        seen: list[int] = []

        async def note(number: int) -> None:
            seen.append(number)

        await asyncio.gather(*(note(number) for number in range(3)))
        return tuple(seen)

    assert len({run(order, seed) for seed in SEEDS}) == 6


def test_many_cancelled_timeouts_do_not_pile_up() -> None:
    async def waits() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        for _ in range(2000):
            async with asyncio.timeout(3600):
                await asyncio.sleep(0.001)
        return len(loop._scheduled)

    assert run(waits) < 300


@pytest.mark.parametrize("seed", SEEDS)
def test_a_queue_keeps_its_order_under_any_schedule(seed: int) -> None:
    async def pass_on() -> list[int]:
        queue: asyncio.Queue[int | None] = asyncio.Queue(maxsize=2)

        async def produce() -> None:
            for number in range(20):
                await queue.put(number)
            await queue.put(None)

        async def consume() -> list[int]:
            seen = []
            while (number := await queue.get()) is not None:
                seen.append(number)
            return seen

        _, seen = await asyncio.gather(produce(), consume())
        return seen

    assert run(pass_on, seed) == list(range(20))


@pytest.mark.parametrize("seed", SEEDS)
def test_locks_and_conditions_exclude_under_any_schedule(seed: int) -> None:
    async def exclude() -> int:
        lock, inside, done = asyncio.Lock(), 0, 0
        condition = asyncio.Condition()

        async def enter() -> None:
            nonlocal inside, done
            async with lock:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1
            async with condition:
                done += 1
                condition.notify_all()

        for _ in range(5):
            asyncio.create_task(enter())  # noqa: RUF006  the simulated loop keeps its tasks
        async with condition:
            await condition.wait_for(lambda: done == 5)
        return done

    assert run(exclude, seed) == 5


@pytest.mark.parametrize("seed", SEEDS)
def test_timeouts_cancel_what_is_late_and_only_that(seed: int) -> None:
    async def race() -> tuple[str, str]:
        async def answer(after: float) -> str:
            await asyncio.sleep(after)
            return "answer"

        early = await asyncio.wait_for(answer(1), 2)
        try:
            late = await asyncio.wait_for(answer(3), 2)
        except TimeoutError:
            late = "timeout"
        async with asyncio.timeout(1):
            await asyncio.sleep(0.5)
        return early, late

    assert run(race, seed) == ("answer", "timeout")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_task_group_cancels_its_tasks_and_tells_every_error(seed: int) -> None:
    async def group() -> list[str]:
        ended: list[str] = []

        async def wait(name: str) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(name)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise KeyError("x")

        async def run_group() -> None:
            async with asyncio.TaskGroup() as tasks:
                for name in "abc":
                    tasks.create_task(wait(name))
                tasks.create_task(fail())

        with pytest.raises(ExceptionGroup) as raised:
            await run_group()
        assert raised.group_contains(KeyError)
        return sorted(ended)

    assert run(group, seed) == ["a", "b", "c"]


def test_async_generators_are_closed_at_the_end() -> None:
    closed = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    async def start() -> int:
        stream = numbers()
        kept.append(stream)
        return await anext(stream)

    kept: list[AsyncIterator[int]] = []
    assert run(start) == 1
    assert closed == [True]


def test_a_deadlock_names_who_waits() -> None:
    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def main() -> None:
        await asyncio.create_task(wait_for_ever(), name="sleeping beauty")

    with pytest.raises(SimDeadlock, match="sleeping beauty"):
        run(main)


def test_a_run_without_end_is_ended() -> None:
    async def spin(world: SimWorld) -> None:
        world.loop.steps_max = 1000
        while world.loop.time() < 1:  # noqa: ASYNC110  polling is the point
            await asyncio.sleep(0)

    async def tick(world: SimWorld) -> None:
        world.loop.seconds_max = 3600
        while world.loop.time() < 1e9:  # noqa: ASYNC110  polling is the point
            await asyncio.sleep(1)

    with pytest.raises(SimOverrun, match="1001 callbacks"):
        simulate(spin, seed=1)
    with pytest.raises(SimOverrun, match=r"3600\.0 s: .*tick"):
        simulate(tick, seed=1)


def test_polling_lets_the_clock_go_on() -> None:
    async def poll() -> float:
        loop = asyncio.get_running_loop()
        while loop.time() < 0.001:  # noqa: ASYNC110  polling is the point
            await asyncio.sleep(0)
        return loop.time()

    assert run(poll) == pytest.approx(0.001, rel=0.01)


def test_a_call_in_a_thread_happens_later_and_its_error_comes_back() -> None:
    async def call() -> tuple[list[str], float]:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        future = loop.run_in_executor(None, seen.append, "thread")
        seen.append("caller")
        await future
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)
        assert await asyncio.to_thread(lambda: 7) == 7
        return seen, loop.time()

    seen, time = run(call)
    assert seen == ["caller", "thread"]
    assert 0 < time < 0.06


def test_an_error_that_nobody_asked_for_fails_the_run() -> None:
    async def fail() -> None:
        raise KeyError("unheard")

    async def main() -> None:
        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        del task

    with pytest.raises(KeyError, match="unheard"):
        run(main)


def test_an_error_in_a_bare_callback_fails_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        run(main)


def test_names_of_callbacks_hold_no_addresses() -> None:
    class Thing:
        def method(self) -> None: ...

        def __call__(self) -> None: ...

    assert name_of(Thing().method).endswith("Thing.method")
    assert name_of(functools.partial(functools.partial(print, 1), 2)) == "print"
    assert name_of(Thing()) == "Thing"


def test_sets_of_tasks_and_futures_iterate_in_the_same_order_in_each_run() -> None:
    async def order() -> list[int]:
        loop = asyncio.get_running_loop()
        padding = [bytes(size) for size in range(Random().randrange(1000))]  # moves addresses
        futures = [loop.create_future() for _ in range(50)]
        del padding
        return [futures.index(future) for future in set(futures)]

    assert run(order) == run(order) == run(order)
