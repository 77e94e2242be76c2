"""What goes wrong between hosts goes wrong as it does with TCP."""

import asyncio

import pytest

from tests.sim.support import Recorder, connect, join, listen
from tierlog.sim import HostDied, SimWorld, simulate

SEEDS = range(20)


def test_a_partition_holds_bytes_back_until_it_heals() -> None:
    async def split(world: SimWorld) -> None:
        server, client = await join(world)
        client.transport.write(b"in flight")
        world.network.partition("client", "server")
        client.transport.write(b", waiting")
        server.transport.write(b"back")
        await asyncio.sleep(1000)
        assert (server.data, client.data) == (b"", b"")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await world.start("client", connect("server"), what="connect")
        world.network.heal("client", "elsewhere")
        await asyncio.sleep(10)
        assert server.data == b""
        world.network.heal("client", "server")
        await asyncio.sleep(10)
        assert (server.data, client.data) == (b"in flight, waiting", b"back")

    simulate(split, seed=1)


def test_a_connect_across_a_partition_times_out_or_comes_about_when_healed() -> None:
    async def split(world: SimWorld) -> None:
        await world.start("server", listen(Recorder), what="listen")
        world.network.partition("client", "server")
        start = world.loop.time()
        with pytest.raises(TimeoutError, match="timed out"):
            await world.start("client", connect("server"), what="connect")
        assert world.loop.time() - start == pytest.approx(127, abs=0.1)
        world.loop.call_later(50, world.network.heal)
        await world.start("client", connect("server"), what="connect")
        assert world.loop.time() - start == pytest.approx(177, abs=0.1)

    simulate(split, seed=1)


def test_one_way_loss_stops_one_way_only() -> None:
    async def lose(world: SimWorld) -> None:
        server, client = await join(world)
        world.network.lose_one_way("server", "client")
        client.transport.write(b"ping")
        server.transport.write(b"pong")
        await asyncio.sleep(10)
        assert (server.data, client.data) == (b"ping", b"")
        world.network.heal()
        await asyncio.sleep(10)
        assert client.data == b"pong"

    simulate(lose, seed=1)


def test_a_reset_breaks_both_ends_of_these_connections_only() -> None:
    async def reset(world: SimWorld) -> None:
        server, client = await join(world)
        bystander, _ = await join(world, server="other")
        assert world.network.reset("client", "server") == 1
        assert isinstance(await server.lost, ConnectionResetError)
        assert isinstance(await client.lost, ConnectionResetError)
        await asyncio.sleep(10)
        assert bystander.events == ["made"]

    simulate(reset, seed=1)


def test_a_slow_link_is_slow() -> None:
    async def wait(world: SimWorld) -> float:
        world.network.set_delay("client", "server", low=1.0, high=2.0)
        server, client = await join(world)
        start = world.loop.time()
        client.transport.close()
        await server.lost
        return world.loop.time() - start

    delays = [simulate(wait, seed=seed) for seed in SEEDS]
    assert 1.0 <= min(delays) < 1.2 < 1.8 < max(delays) <= 2.02


def test_a_reset_that_meets_a_partition_arrives_after_it() -> None:
    async def abort(world: SimWorld) -> None:
        server, client = await join(world)
        world.network.partition("client", "server")
        client.transport.abort()
        await asyncio.sleep(100)
        assert server.events == ["made"]
        world.network.heal()
        assert isinstance(await server.lost, ConnectionResetError)

    simulate(abort, seed=1)


def test_peers_of_a_killed_process_see_an_end_or_a_reset() -> None:
    async def kill(world: SimWorld) -> str:
        server, client = await join(world)
        world.kill("server")
        error = await client.lost
        assert server.events == ["made"]
        return "end" if error is None else "reset"

    assert {simulate(kill, seed=seed) for seed in SEEDS} == {"end", "reset"}


def test_peers_of_a_machine_without_power_hear_nothing_until_they_send() -> None:
    async def cut(world: SimWorld) -> None:
        server, client = await join(world)
        world.power_cut("server")
        await asyncio.sleep(3600)
        assert client.events == ["made"]
        client.transport.write(b"anybody?")
        assert isinstance(await client.lost, ConnectionResetError)
        assert server.events == ["made"]
        with pytest.raises(ConnectionRefusedError):
            await connect("server")
        await world.start("server", listen(Recorder), what="listen again")
        await connect("server")

    simulate(cut, seed=1)


def test_a_dead_process_neither_hears_nor_speaks() -> None:
    async def die(world: SimWorld) -> None:
        server, client = await join(world)
        answer = world.start("client", asyncio.sleep(5), what="nap")
        server.transport.write(b"hello")
        world.kill("client")
        client.transport.write(b"ghost")
        await asyncio.sleep(10)
        assert client.events == ["made"]
        assert server.data == b""
        with pytest.raises(HostDied):
            await answer

    simulate(die, seed=1)
