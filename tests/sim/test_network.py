"""In-memory connections behave as TCP under asyncio does."""

import asyncio

import pytest

from tests.sim.support import Buffered, Recorder, connect, join, listen
from tierlog.sim import SimWorld, simulate

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_bytes_arrive_whole_and_in_order_through_a_buffered_protocol(seed: int) -> None:
    async def echo(world: SimWorld) -> None:
        await world.start("server", listen(Buffered), what="listen")
        _, client = await world.start("client", connect("server"), what="connect")
        sent = b"".join(b"%d," % number for number in range(500))
        for start in range(0, len(sent), 100):
            client.transport.write(sent[start : start + 100])
        await asyncio.sleep(10)
        assert client.data == sent
        client.transport.close()
        assert await client.lost is None

    simulate(echo, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_work_and_half_close(seed: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.writelines([(await reader.read()).upper(), b"!"])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def talk(world: SimWorld) -> bytes:
        async def start() -> None:
            await asyncio.start_server(serve, "server", 9092)

        await world.start("server", start(), what="serve")
        reader, writer = await asyncio.open_connection("server", 9092)
        writer.write(b"hello " * 20_000)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer

    assert simulate(talk, seed=seed) == b"HELLO " * 20_000 + b"!"


def test_pieces_differ_between_seeds() -> None:
    async def pieces(world: SimWorld) -> tuple[int, ...]:
        sizes: list[int] = []

        class Sizes(Recorder):
            def data_received(self, data: bytes) -> None:
                sizes.append(len(data))

        await world.start("server", listen(Sizes), what="listen")
        _, client = await world.start("client", connect("server"), what="connect")
        for _ in range(5):
            client.transport.write(b"x" * 100)
        await asyncio.sleep(1)
        assert sum(sizes) == 500
        return tuple(sizes)

    seen = {simulate(pieces, seed=seed) for seed in SEEDS}
    assert len(seen) > 10
    assert min(map(len, seen)) < 5 < max(map(len, seen))


def test_addresses_ports_and_refusals_are_told() -> None:
    async def look(world: SimWorld) -> None:
        port = await world.start("server", listen(Recorder, 0), what="listen")
        with pytest.raises(OSError, match="in use"):
            await world.start("server", listen(Recorder, port), what="listen twice")
        await world.start("other", listen(Recorder, port), what="listen elsewhere")
        _, client = await world.start("client", connect("server", port), what="connect")
        assert client.transport.get_extra_info("peername") == ("server", port)
        assert client.transport.get_extra_info("sockname")[0] == "client"
        assert client.transport.get_extra_info("socket") is None
        with pytest.raises(ConnectionRefusedError):
            await connect("server", port + 999)
        await world.start("server", connect("localhost", port), what="to itself")
        with pytest.raises(ConnectionRefusedError):
            await world.start("client", connect("127.0.0.1", port), what="to nobody")
        _, named = await world.loop.create_connection(
            Recorder, "server", port, local_addr=("client", 0)
        )
        assert isinstance(named, Recorder)
        assert named.transport.get_extra_info("sockname")[0] == "client"

    simulate(look, seed=1)


def test_a_closed_server_refuses_and_keeps_its_connections() -> None:
    async def close(world: SimWorld) -> None:
        server = await world.loop.create_server(Recorder, None, 9092)
        _, client = await connect("localhost")
        assert server.is_serving()
        server.close()
        await server.wait_closed()
        assert not server.is_serving()
        assert server.sockets == ()
        with pytest.raises(ConnectionRefusedError):
            await connect("localhost")
        client.transport.write(b"still here")
        await asyncio.sleep(1)
        assert client.events == ["made"]

    simulate(close, seed=1)


def test_tls_and_real_sockets_are_refused_plainly() -> None:
    async def ask(world: SimWorld) -> None:
        with pytest.raises(NotImplementedError):
            await world.loop.create_connection(Recorder, "x", 1, ssl=True)
        with pytest.raises(NotImplementedError):
            await world.loop.create_server(Recorder, "x", 1, ssl=True)

    simulate(ask, seed=1)


# Flow control and closing


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_that_pauses_stops_the_writer(seed: int) -> None:
    async def push(world: SimWorld) -> None:
        server, client = await join(world)
        client.transport.set_write_buffer_limits(high=1000, low=100)
        assert client.transport.get_write_buffer_limits() == (100, 1000)
        server.transport.pause_reading()
        assert not server.transport.is_reading()
        client.transport.write(bytes(200_000))
        await asyncio.sleep(1)
        assert client.events == ["made", "pause"]
        assert not server.data
        assert client.transport.get_write_buffer_size() > 100_000
        server.transport.resume_reading()
        await asyncio.sleep(10)
        assert client.events == ["made", "pause", "resume"]
        assert len(server.data) == 200_000

    simulate(push, seed=seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_close_sends_what_is_buffered_then_loses_both_ends(seed: int) -> None:
    async def part(world: SimWorld) -> None:
        server, client = await join(world)
        client.transport.write(bytes(150_000))
        client.transport.close()
        client.transport.write(b"too late")
        assert client.transport.is_closing()
        assert await client.lost is None
        assert await server.lost is None
        assert len(server.data) == 150_000
        assert server.events == ["made", "data", "eof", "lost"]

    simulate(part, seed=seed)


def test_write_after_eof_is_an_error() -> None:
    async def write(world: SimWorld) -> None:
        _, client = await join(world)
        assert client.transport.can_write_eof()
        client.transport.write_eof()
        with pytest.raises(RuntimeError):
            client.transport.write(b"x")

    simulate(write, seed=1)


def test_abort_resets_the_peer() -> None:
    async def abort(world: SimWorld) -> None:
        server, client = await join(world)
        client.transport.write(b"perhaps")
        client.transport.abort()
        assert await client.lost is None
        assert isinstance(await server.lost, ConnectionResetError)

    simulate(abort, seed=1)


def test_writing_to_an_end_that_is_gone_is_answered_by_a_reset() -> None:
    async def write(world: SimWorld) -> None:
        class Stubborn(Recorder):
            def eof_received(self) -> bool:
                return True

        await world.start("server", listen(Recorder), what="listen")
        _, client = await world.loop.create_connection(Stubborn, "server", 9092)
        assert isinstance(client, Stubborn)
        world.kill("server")
        await asyncio.sleep(1)
        client.transport.write(b"anybody?")
        assert isinstance(await client.lost, ConnectionResetError)

    for seed in SEEDS:
        simulate(write, seed=seed)


def test_a_protocol_that_raises_breaks_its_connection_and_fails_the_run() -> None:
    class Faulty(Recorder):
        def data_received(self, data: bytes) -> None:
            raise KeyError("oops")

    async def send(world: SimWorld) -> None:
        await world.start("server", listen(Faulty), what="listen")
        _, client = await connect("server")
        client.transport.write(b"x")
        assert isinstance(await client.lost, ConnectionResetError)

    with pytest.raises(KeyError, match="oops"):
        simulate(send, seed=1)
