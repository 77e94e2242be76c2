"""A service that does what its requests say, and clients that speak to it in any world."""

import asyncio
from collections.abc import Callable, Coroutine
from struct import pack
from typing import Any, TypeVar

import uvloop

from tierlog.broker.limits import ConnectionLimits
from tierlog.broker.listener import Listener
from tierlog.broker.request import Answer, CloseConnection, MayBlock, Parts, Peer
from tierlog.env import Env, File, local_env
from tierlog.sim import SimWorld
from tierlog.sim.ports import SimClock
from tierlog.types import Bytes

T = TypeVar("T")

METADATA, PRODUCE = 3, 0
PATIENCE_S = 8.0


def request(body: bytes, *, key: int = METADATA) -> bytes:
    return pack(">ih", len(body) + 2, key) + body


def framed(body: bytes) -> Parts:
    return [pack(">i", len(body)), body]


class Obedient:
    """Echoes; some first words ask for something else:

    `later NAME` is answered by `answer(NAME)`, `large N` with N bytes, `blocking N` with N bytes
    that may block, `mapped N` with N bytes of `file`, `silent` never, `refused` and `broken` raise,
    `failed` is answered with what has failed already.
    """

    file: File

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.pending: dict[bytes, asyncio.Future[Parts | None]] = {}
        self.arrived = asyncio.Condition()
        self.peers: set[Peer] = set()

    def handle(self, frame: memoryview, peer: Peer) -> Answer:
        body = bytes(frame[2:])
        frame[2:] = bytes(len(body))  # Handlers patch what they append; nobody else may mind.
        self.seen.append(body)
        self.peers.add(peer)
        word, _, rest = body.partition(b" ")
        if word == b"later":
            future: asyncio.Future[Parts | None] = asyncio.get_running_loop().create_future()
            self.pending[rest] = future
            return future
        if word == b"large":
            return framed(b"l" * int(rest))
        if word == b"blocking":
            return MayBlock(framed(b"b" * int(rest)))
        if word == b"mapped":
            return [pack(">i", int(rest)), self.file.view(int(rest), 0)]
        if word == b"failed":
            failed: asyncio.Future[Parts | None] = asyncio.get_running_loop().create_future()
            failed.set_exception(CloseConnection("failed before"))
            return failed
        if word == b"refused":
            raise CloseConnection("not with me")
        if word == b"broken":
            raise ZeroDivisionError("a bug")
        return None if word == b"silent" else framed(body)

    def answer(self, name: bytes, body: bytes | None = None) -> None:
        self.pending.pop(name).set_result(framed(b"late " + name if body is None else body))


class Client:
    """Sends bytes and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *bodies: bytes, key: int = METADATA) -> None:
        self.writer.write(b"".join(request(body, key=key) for body in bodies))

    def send_raw(self, data: Bytes) -> None:
        self.writer.write(data)

    async def reply(self) -> bytes:
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def replies(self, count: int) -> list[bytes]:
        return [await self.reply() for _ in range(count)]

    async def ask(self, body: bytes) -> bytes:
        self.send(body)
        return await self.reply()

    async def is_ended(self) -> bool:
        """Whether the other side closes, with nothing more to read."""
        try:
            return not await self.reader.read(1)
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


class House:
    """A listener with its service, and whoever visits."""

    def __init__(self, env: Env, limits: ConnectionLimits | None = None) -> None:
        self.env = env
        self.service = Obedient()
        self.listener = Listener(self.service, env, limits)
        self.traffic = self.listener.traffic
        self._clients: list[Client] = []

    async def __aenter__(self) -> "House":
        self.address = await self.listener.start("127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.listener.close()
        for client in self._clients:
            await client.close()
        await until(lambda: self.listener.connections == 0)
        assert self.listener.in_flight_bytes == 0
        assert self.listener.buffers.taken == 0
        assert self.traffic.open_count == 0

    async def visit(self) -> Client:
        host = "localhost" if isinstance(self.env.clock, SimClock) else self.address[0]
        client = Client(*await asyncio.open_connection(host, self.address[1]))
        self._clients.append(client)
        return client


Scenario = Callable[[Env], Coroutine[Any, Any, T]]

WORLDS = ("asyncio", "uvloop", "sim")


def run_in(world: str, scenario: Scenario[T], *, seed: int = 1) -> T:
    if world == "sim":
        return run_simulated(scenario, seed=seed)
    factory = uvloop.new_event_loop if world == "uvloop" else asyncio.new_event_loop
    env = local_env()

    async def in_time() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await scenario(env)

    with asyncio.Runner(loop_factory=factory) as runner:
        result = runner.run(in_time())
    env.senders.close()
    return result


def run_simulated(scenario: Scenario[T], *, seed: int = 1) -> T:
    world = SimWorld(seed)
    world.loop.steps_max = 500_000
    env = world.env("node")

    async def on_the_node() -> T:
        return await world.start("node", scenario(env), what="scenario")

    return world.run(on_the_node())


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until it is so; the world bounds the wait."""
    while not condition():  # noqa: ASYNC110  what tests wait for here has no event
        await asyncio.sleep(0)
