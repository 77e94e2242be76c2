"""Waiters: woken in order of what they wait for, in whatever order they came."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.hot.waiters import SWEEP_MIN, Waiters
from tierlog.types import Offset


@given(st.lists(st.integers(0, 20), max_size=20), st.integers(0, 20))
def test_exactly_those_are_woken_whose_end_is_reached(ends: list[int], reached: int) -> None:
    loop = asyncio.new_event_loop()
    try:
        waiters = Waiters()
        futures = [(end, loop.create_future()) for end in ends]
        for end, future in futures:
            waiters.add(Offset(end), future)
        waiters.wake(Offset(reached))
        assert [future.done() for _, future in futures] == [end <= reached for end in ends]
        assert len(waiters) == sum(end > reached for end in ends)
    finally:
        loop.close()


async def test_those_who_gave_up_are_swept_out() -> None:
    waiters = Waiters()
    loop = asyncio.get_running_loop()
    stays = [loop.create_future() for _ in range(50)]
    for number, future in enumerate(stays):
        waiters.add(Offset(number), future)
    for number in range(2000):
        gone = loop.create_future()
        waiters.add(Offset(number % 60), gone)
        gone.cancel()
    assert len(waiters) <= 2 * len(stays) + SWEEP_MIN
    waiters.wake(Offset(25))
    assert [future.done() for future in stays] == [number <= 25 for number in range(50)]


async def test_the_rest_hears_why_and_who_gave_up_is_left_alone() -> None:
    waiters = Waiters()
    loop = asyncio.get_running_loop()
    stays, gone = loop.create_future(), loop.create_future()
    waiters.add(Offset(1), stays)
    waiters.add(Offset(1), gone)
    gone.cancel()
    waiters.fail(ValueError("why"))
    with pytest.raises(ValueError, match="why"):
        await stays
    assert gone.cancelled()
    assert len(waiters) == 0
