"""Everybody else has a turn while somebody walks."""

import asyncio

from tierlog.broker.turns import in_turns


async def test_every_item_comes_in_order() -> None:
    assert [item async for item in in_turns(range(7), 3)] == list(range(7))


async def test_others_run_after_each_turn_and_not_before() -> None:
    ran: list[bool] = []
    asyncio.get_running_loop().call_soon(ran.append, True)
    seen = [bool(ran) async for _ in in_turns(range(4), 2)]
    assert seen == [False, False, True, True]
