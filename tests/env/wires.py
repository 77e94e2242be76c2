"""A connection over loopback with a sender at one end and a bare socket at the other."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import uvloop

from tierlog.env import Sender

T = TypeVar("T")
PATIENCE_S = 20.0

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def run_on(loop: str, work: Coroutine[Any, Any, T]) -> T:
    async def in_time() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await work

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(in_time())


Attach = Callable[..., Sender]


class End(asyncio.Protocol):
    """The end with the sender; remembers what it was told."""

    sender: Sender

    def __init__(self, attach: Attach) -> None:
        self._attach = attach
        self.made = asyncio.Event()
        self.drained = asyncio.Event()
        self.lost = asyncio.Event()
        self.errors: list[Exception | None] = []
        self.queued_when_told: list[int] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.sender = self._attach(
            cast("asyncio.Transport", transport),
            on_drained=self.on_drained,
            on_lost=self.errors.append,
        )
        self.made.set()

    def on_drained(self) -> None:
        self.queued_when_told.append(self.sender.queued_bytes)
        self.drained.set()

    def resume_writing(self) -> None:
        self.on_drained()

    def connection_lost(self, exc: Exception | None) -> None:
        self.sender.abort()
        self.lost.set()


class Peer:
    """The other end: reads when it is asked to."""

    def __init__(self, *, receive_bytes: int | None = None) -> None:
        self._socket = socket.socket()
        self._socket.setblocking(False)
        if receive_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

    async def connect(self, address: tuple[str, int]) -> None:
        await asyncio.get_running_loop().sock_connect(self._socket, address)

    async def read(self, count: int) -> bytes:
        """So many bytes, or fewer if the connection ends before."""
        data = bytearray()
        while len(data) < count:
            piece = await asyncio.get_running_loop().sock_recv(
                self._socket, min(1 << 20, count - len(data))
            )
            if not piece:
                break
            data += piece
        return bytes(data)

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def is_ended(self) -> bool:
        """Whether the other side has closed; a reset is one way to."""
        try:
            return not await self.read(1)
        except ConnectionResetError:
            return True

    def finish(self) -> None:
        """No more from here."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()


class Wires:
    """Makes connections, one at a time; leaving the block ends them all."""

    def __init__(self, attach: Attach) -> None:
        self._attach = attach
        self._accepted: asyncio.Queue[End] = asyncio.Queue()
        self._ends: list[End] = []
        self._peers: list[Peer] = []

    async def __aenter__(self) -> "Wires":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
        return self

    def _accept(self) -> End:
        end = End(self._attach)
        self._accepted.put_nowait(end)
        return end

    async def connect(self, *, receive_bytes: int | None = None) -> tuple[End, Peer]:
        peer = Peer(receive_bytes=receive_bytes)
        await peer.connect(self._server.sockets[0].getsockname())
        end = await self._accepted.get()
        self._peers.append(peer)
        self._ends.append(end)
        await end.made.wait()
        return end, peer

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for end in self._ends:
            end.sender.abort()
            await end.lost.wait()
        for peer in self._peers:
            peer.close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until it is so; `run_on` bounds the wait."""
    while not condition():  # noqa: ASYNC110  what tests wait for here has no event
        await asyncio.sleep(0)
