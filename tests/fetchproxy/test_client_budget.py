"""A budget of GETs a second for each client, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.fetchproxy.support import (
    WHOLE_CHUNKS,
    HandClock,
    Prefix,
    even_history,
    upload,
    whole,
)
from tests.fetchproxy.test_gets_limit import Timed
from tierlog.fetchproxy import ColdRead, FetchProxy
from tierlog.fetchproxy.clients import Clients
from tierlog.sim import SimWorld
from tierlog.types import Offset

SEGMENTS = even_history(segments=4)


class Elsewhere(Prefix):
    """Another partition with the same records."""

    def full_key(self, key: str) -> str:
        return f"c/t/id/1/{key}"


async def replay(proxy: FetchProxy, prefix: Prefix, client: str) -> bytes:
    parts, offset = [], Offset(0)
    while offset < prefix.head.next_offset:
        found = proxy.read(prefix, offset, bytes_max=1024, client=client)
        got = found if isinstance(found, ColdRead) else await found
        parts += [bytes(got.records), bytes(got.more)]
        offset = got.next_offset
    return b"".join(parts)


def play(
    rate: float | None, work: Callable[[SimWorld, FetchProxy, Timed], Awaitable[None]]
) -> None:
    world = SimWorld(1)

    async def run() -> None:
        store = Timed(world)
        settings = replace(WHOLE_CHUNKS, client_gets_per_second=rate)
        proxy = FetchProxy(world.env("node"), store, settings, "/data/cache")
        await proxy.start()
        await work(world, proxy, store)
        await proxy.close()

    async def node() -> None:
        await world.start("node", run(), what="node")

    world.run(node())


@pytest.mark.parametrize("rate", [1.0, 5.0])
def test_a_client_keeps_to_its_gets_a_second_and_gets_the_same(rate: float) -> None:
    async def work(world: SimWorld, proxy: FetchProxy, store: Timed) -> None:
        prefix = await upload(store, SEGMENTS)
        assert await replay(proxy, prefix, "one") == whole(SEGMENTS)
        took_s = store.times[-1] - store.times[0]
        count = len(store.times)
        assert count == proxy.clients.of("one").gets > 20
        # Read-ahead and indexes are owed afterwards: some may be out at the end.
        assert (count - 10) / rate <= took_s <= (count + 1) / rate
        assert proxy.stats.gets_late > 0

    play(rate, work)


def test_the_budget_of_one_is_not_felt_by_another() -> None:
    async def work(world: SimWorld, proxy: FetchProxy, store: Timed) -> None:
        clock = world.env("node").clock
        slow = await upload(store, SEGMENTS)
        quick = Elsewhere(slow.entries)
        for entry in slow.entries:
            store.shelf.items[quick.full_key(entry.key)] = store.shelf.items[
                slow.full_key(entry.key)
            ]
        greedy = [asyncio.ensure_future(replay(proxy, slow, "greedy")) for _ in range(3)]
        await asyncio.sleep(5)
        begun = clock.monotonic()
        for number in range(40):  # Each has a budget of its own.
            read = proxy.read(quick, Offset(number * 4), bytes_max=400, client=f"quick {number}")
            assert isinstance(read, ColdRead) or await read
        assert clock.monotonic() - begun < 1
        assert not any(one.done() for one in greedy)
        for one in greedy:
            one.cancel()
        await asyncio.gather(*greedy, return_exceptions=True)

    play(1.0, work)


def test_what_is_cached_costs_no_budget() -> None:
    async def work(world: SimWorld, proxy: FetchProxy, store: Timed) -> None:
        prefix = await upload(store, SEGMENTS)
        await replay(proxy, prefix, "one")
        await asyncio.sleep(1)
        begun = world.env("node").clock.monotonic()
        assert await replay(proxy, prefix, "two") == whole(SEGMENTS)
        assert world.env("node").clock.monotonic() - begun < 1

    play(2.0, work)


def test_without_a_budget_nobody_waits_and_nothing_is_remembered() -> None:
    async def work(_: SimWorld, proxy: FetchProxy, store: Timed) -> None:
        prefix = await upload(store, SEGMENTS)
        await replay(proxy, prefix, "one")
        assert store.times[-1] - store.times[0] < 1
        assert proxy.stats.gets_late == 0

    play(None, work)


def test_one_id_has_one_budget_and_only_so_many_are_remembered() -> None:
    clients = Clients(2, clock=HandClock(), gets_per_second=1.0)
    assert clients.reader("a", "group").turn() == 0
    again = clients.reader("a", "another group")
    assert again.turn() == 1
    assert again.turn() == 0, "paid, and not used yet"
    again.asked()
    assert again.turn() == 2
    assert again.is_in_debt
    assert clients.reader("b").turn() == 0
    assert clients.reader("c").turn() == 0
    assert clients.reader("a").turn() == 0, "forgotten"
    assert clients.reader("b", has_budget=False).turn() == 0
