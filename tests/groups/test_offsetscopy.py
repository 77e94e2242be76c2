"""The copy of group offsets: gathered as one moment had them, and in pieces."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.groups.classics import GROUP, Bench
from tierlog.cold.clusteroffsets import Spot
from tierlog.groups.machine import GroupMachine
from tierlog.groups.offsetscopy import A_TURN, gathered
from tierlog.groups.values import Commit


class PlainShard:
    """Answers at once."""

    def __init__(self, machine: GroupMachine) -> None:
        self.machine = machine

    async def read(self, look: Callable[[GroupMachine], Any]) -> Any:
        return look(self.machine)


def commit(bench: Bench, *commits: Commit) -> None:
    ticket = bench.ticket()
    bench.carry_out(bench.machine.commit(GROUP, "", None, -1, commits, ticket, bench.now))


async def test_many_offsets_are_gathered_in_pieces_as_one_moment_had_them() -> None:
    bench, count = Bench(), 3 * A_TURN
    commit(bench, *(Commit("t", number, 5, -1, "") for number in range(count)))
    commit(bench, Commit("gone", 0, 5, -1, ""))
    turns, is_done = 0, False

    async def others() -> None:
        nonlocal turns
        while not is_done:
            turns += 1
            commit(bench, Commit("t", count - 1, 9, -1, ""))
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    found = await gathered(PlainShard(bench.machine), {"t": "id"})  # type: ignore[arg-type]  # What it needs of one.
    is_done = True
    await beside
    assert turns >= 3
    assert len(found[GROUP]) == count
    assert found[GROUP][Spot("id", count - 1)].offset == 5
