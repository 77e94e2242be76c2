"""Connections for the tests of the simulated network."""

import asyncio
from collections.abc import Callable

from tierlog.sim import SimWorld


class Recorder(asyncio.Protocol):
    """Writes down what happens to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.data = b""
        self.transport: asyncio.Transport
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        assert data
        self.data += data
        if self.events[-1] != "data":
            self.events.append("data")

    def eof_received(self) -> bool | None:
        self.events.append("eof")
        return None

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")
        self.lost.set_result(exc)


class Buffered(asyncio.BufferedProtocol):
    """Echoes through a small buffer."""

    def __init__(self) -> None:
        self._buffer = bytearray(7)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._transport.write(memoryview(self._buffer)[:nbytes])


async def join(
    world: SimWorld, *, server: str = "server", client: str = "client"
) -> tuple[Recorder, Recorder]:
    """A connection between two recorders: the server's end and the client's."""
    accepted: asyncio.Future[Recorder] = world.loop.create_future()

    def accept() -> Recorder:
        recorder = Recorder()
        accepted.set_result(recorder)
        return recorder

    await world.start(server, listen(accept), what="listen")
    _, protocol = await world.start(client, connect(server), what="connect")
    return await accepted, protocol


async def listen(factory: Callable[[], asyncio.BaseProtocol], port: int = 9092) -> int:
    server = await asyncio.get_running_loop().create_server(factory, "0.0.0.0", port)
    return int(server.sockets[0].getsockname()[1])


async def connect(host: str, port: int = 9092) -> tuple[asyncio.Transport, Recorder]:
    return await asyncio.get_running_loop().create_connection(Recorder, host, port)
