"""Limits, the sweep and the way out."""

import asyncio
from pathlib import Path
from struct import pack

import pytest

from tests.broker.obedient import WORLDS, House, request, run_in, run_simulated, until
from tierlog.broker.limits import ConnectionLimits
from tierlog.broker.listener import Listener
from tierlog.env import Env

everywhere = pytest.mark.parametrize("world", WORLDS)


@everywhere
@pytest.mark.parametrize("limit", ["connections_max", "connections_per_ip_max"])
def test_connections_beyond_the_limit_are_refused_and_the_others_stay(
    world: str, limit: str
) -> None:
    async def scenario(env: Env) -> None:
        async with House(env, ConnectionLimits(**{limit: 2})) as house:
            first, second = await house.visit(), await house.visit()
            assert await first.ask(b"1") + await second.ask(b"2") == b"12"
            third = await house.visit()
            assert await third.is_ended()
            assert await first.ask(b"still") == b"still"
            refused = (house.traffic.refused_node_full, house.traffic.refused_ip_full)
            assert refused == ((1, 0) if limit == "connections_max" else (0, 1))
            await second.close()
            await until(lambda: house.listener.connections == 1)
            assert await (await house.visit()).ask(b"a place is free") == b"a place is free"

    run_in(world, scenario)


def test_a_connection_that_says_nothing_whole_is_closed_after_the_handshake_time() -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            silent, slow, good = [await house.visit() for _ in range(3)]
            assert await good.ask(b"hello") == b"hello"
            began = env.clock.monotonic()
            for piece in (b"\0", b"\0", b"\0", b"\x20ab"):
                slow.send_raw(piece)
                await asyncio.sleep(2.5)
            assert await silent.is_ended()
            assert await slow.is_ended()
            assert 9 <= env.clock.monotonic() - began <= 13
            assert house.traffic.closed_handshake == 2
            assert await good.ask(b"still here") == b"still here"

    run_simulated(scenario)


def test_an_idle_connection_is_closed_and_one_that_waits_for_us_is_not() -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            idle, waiting, busy = [await house.visit() for _ in range(3)]
            assert await idle.ask(b"a") == b"a"
            waiting.send(b"later poll")
            for _ in range(8):
                assert await busy.ask(b"tick") == b"tick"
                await asyncio.sleep(100)
            assert await idle.is_ended()
            assert house.traffic.closed_idle == 1
            house.service.answer(b"poll")
            assert await waiting.reply() == b"late poll"
            await asyncio.sleep(5)
            assert await waiting.ask(b"still here") == b"still here"

    run_simulated(scenario)


def test_a_connection_that_stops_in_the_middle_of_a_frame_is_closed() -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            assert await client.ask(b"a") == b"a"
            client.send_raw(pack(">i", 1000) + b"x" * 500)
            began = env.clock.monotonic()
            assert await client.is_ended()
            assert 29 <= env.clock.monotonic() - began <= 34
            assert house.traffic.closed_stalled == 1

    run_simulated(scenario)


@everywhere
def test_drain_answers_what_is_under_way_and_takes_nothing_new(world: str) -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client, idle = await house.visit(), await house.visit()
            assert await idle.ask(b"x") == b"x"
            client.send(b"later a", b"large 3000000")
            await until(lambda: len(house.service.seen) == 3)
            draining = asyncio.ensure_future(house.listener.drain(60.0))
            assert await idle.is_ended()
            client.send(b"too late")
            with pytest.raises(ConnectionRefusedError):
                await house.visit()
            house.service.answer(b"a")
            assert await client.reply() == b"late a"
            assert len(await client.reply()) == 3_000_000
            assert await client.is_ended()
            await client.close()
            await draining
            assert b"too late" not in house.service.seen

    run_in(world, scenario)


@everywhere
def test_drain_has_those_answered_who_only_wait(world: str) -> None:
    async def scenario(env: Env) -> None:
        house = House(env)
        house.listener = Listener(
            house.service, env, finish_waiting=lambda: house.service.answer(b"poll")
        )
        house.traffic = house.listener.traffic
        async with house:
            client = await house.visit()
            client.send(b"later poll")
            await until(lambda: bool(house.service.pending))
            draining = asyncio.ensure_future(house.listener.drain(3600.0))
            assert await client.reply() == b"late poll"
            assert await client.is_ended()
            await client.close()
            await draining

    run_in(world, scenario)


def test_drain_cuts_off_what_does_not_finish_in_time() -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            client = await house.visit()
            client.send(b"later for ever")
            await until(lambda: bool(house.service.pending))
            began = env.clock.monotonic()
            await house.listener.drain(5.0)
            assert 5 <= env.clock.monotonic() - began < 6
            assert house.service.pending[b"for ever"].cancelled()
            assert await client.is_ended()

    run_simulated(scenario)


def test_the_peer_knows_both_addresses() -> None:
    async def scenario(env: Env) -> None:
        async with House(env) as house:
            first, second = await house.visit(), await house.visit()
            await first.ask(b"a")
            await second.ask(b"b")
            one, other = sorted(house.service.peers, key=lambda peer: peer.connection_id)
            assert one.connection_id != other.connection_id
            assert (one.local_host, one.local_port) == house.address
            assert one.host == "127.0.0.1"
            assert one.port == first.writer.get_extra_info("sockname")[1]

    run_in("asyncio", scenario)


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


def test_a_crowd_of_idle_connections_costs_little_memory() -> None:
    count = 300

    async def scenario(env: Env) -> None:
        async with House(env) as house:
            await (await house.visit()).ask(b"warm")
            before = resident_bytes()
            for _ in range(count):
                client = await house.visit()
                client.send_raw(request(b"x" * 300) + b"\0\0")
                await client.reply()
            # Both ends live in this process; 1,000 of them would have to stay below 100 MB.
            assert resident_bytes() - before < count * 100_000

    run_in("uvloop", scenario)
