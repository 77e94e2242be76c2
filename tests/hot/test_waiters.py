"""Waiters: woken in order of what they wait for, in whatever order they came."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.hot.waiters import Waiters
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
