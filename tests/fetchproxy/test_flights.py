import asyncio

import pytest

from tests.fetchproxy.support import PlayedTasks, settled
from tierlog.fetchproxy import ColdUnavailable
from tierlog.fetchproxy.flights import Allowance, ByteBudget, Flights


async def test_a_budget_is_given_out_in_turn() -> None:
    budget = ByteBudget(10)
    await budget.take(8)
    order: list[int] = []

    async def want(size: int) -> None:
        await budget.take(size)
        order.append(size)

    waiting = [asyncio.ensure_future(want(size)) for size in (9, 1)]
    await settled()
    assert order == []  # The small one fits and still has to wait for the large one.
    assert not budget.try_take(1)
    budget.give(8)
    await settled()
    assert order == [9, 1]
    assert budget.used == budget.used_peak == 10
    await asyncio.gather(*waiting)


async def test_what_is_larger_than_the_budget_goes_alone() -> None:
    budget = ByteBudget(10)
    assert budget.try_take(25)
    assert not budget.try_take(1)
    budget.give(25)
    assert budget.try_take(1)


async def test_who_stops_waiting_for_a_budget_has_taken_nothing() -> None:
    budget = ByteBudget(10)
    await budget.take(10)
    gone = asyncio.ensure_future(budget.take(10))
    behind = asyncio.ensure_future(budget.take(1))
    await settled()
    gone.cancel()
    await settled()
    budget.give(10)
    await settled()
    assert behind.done()
    assert budget.used == 1


async def test_a_turn_that_comes_together_with_a_cancellation_is_given_back() -> None:
    budget = ByteBudget(10)
    await budget.take(10)
    gone = asyncio.ensure_future(budget.take(10))
    await settled()
    budget.give(10)
    gone.cancel()
    await settled()
    assert gone.cancelled()
    assert budget.used == 0


async def test_many_wait_for_one_flight_and_it_lands_without_them() -> None:
    flights: Flights[int] = Flights(PlayedTasks(), ByteBudget(10))
    gate = asyncio.Event()
    landed: list[int] = []

    async def work() -> int:
        await gate.wait()
        landed.append(1)
        return 7

    waiting = [asyncio.ensure_future(asyncio.shield(flights.fly("x", 5, work))) for _ in range(9)]
    await settled()
    waiting[0].cancel()
    await settled()
    gate.set()
    assert await asyncio.gather(*waiting[1:]) == [7] * 8
    assert landed == [1]
    assert flights.get("x") is None


async def test_an_error_reaches_all_who_wait_and_the_next_flight_starts_anew() -> None:
    budget = ByteBudget(10)
    flights: Flights[int] = Flights(PlayedTasks(), budget)

    async def fail() -> int:
        raise ColdUnavailable("seg", "gone")

    async def succeed() -> int:
        return 1

    with pytest.raises(ColdUnavailable):
        await asyncio.shield(flights.fly("x", 5, fail))
    assert budget.used == 0
    assert await asyncio.shield(flights.fly("x", 5, succeed)) == 1


async def test_what_nobody_waits_for_takes_only_room_that_is_free() -> None:
    flights: Flights[int] = Flights(PlayedTasks(), ByteBudget(10))
    gate = asyncio.Event()

    async def work() -> int:
        await gate.wait()
        return 1

    first = flights.try_fly("a", 8, work)
    assert first is not None
    assert flights.try_fly("a", 8, work) is first
    assert flights.try_fly("b", 8, work) is None
    await flights.close()
    assert first.cancelled()


async def test_an_allowance_counts_until_the_flight_has_landed() -> None:
    allowance = Allowance(100, chunk_bytes=10)
    flight: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    allowance.count(150, flight)
    assert allowance.has_room(50)
    assert not allowance.has_room(51)
    flight.set_result(None)
    await settled()
    assert allowance.has_room(200)
    assert Allowance(1, chunk_bytes=10).limit == 20
