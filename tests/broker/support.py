"""A node without a network: requests go in as frames, responses come out as messages.

    async with serving() as served:
        await served.create("t", partitions=3)
        response = await served.call(MetadataRequest(topics=None), 12)

The disk is simulated and everything that would block runs on the loop, so nothing here depends on
the machine; `serving(disk=...)` starts a node on what another one left behind. `Wedge` is a
metastore that fails or hangs when the test says so.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from tests.hot.support import FixedClock, batch
from tierlog.broker.controller import NewTopic
from tierlog.broker.dispatch import Dispatcher
from tierlog.broker.handlers import registry
from tierlog.broker.node import LOGS, META, Node
from tierlog.broker.request import Peer
from tierlog.broker.topics import Topic
from tierlog.config import NodeSettings
from tierlog.env import Env, LocalTasks, PlainSenders, SystemRng
from tierlog.hot import LogDirectory
from tierlog.metastore import Entry, Event, LocalMetaStore, MetaStore, Session, TxnResult
from tierlog.metastore.port import Change, Compare
from tierlog.sim.disk import SimDisk
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.header import decode_response, encode_request
from tierlog.wire.schema import Request

T = TypeVar("T")

DATA = "/data"
Entries = list[Entry]
Events = list[Event]


class LoopTasks(LocalTasks):
    """Blocking calls run on the loop, at its next turn: the simulated disk is not for threads."""

    def in_thread(self, call: Callable[..., T], *args: object) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(self._run, future, call, args)
        return future

    @staticmethod
    def _run(future: asyncio.Future[T], call: Callable[..., T], args: Sequence[object]) -> None:
        if future.cancelled():
            return
        try:
            future.set_result(call(*args))
        except Exception as fault:  # noqa: BLE001  whoever waits hears it
            future.set_exception(fault)


class Wedge:
    """A metastore whose transactions fail with `fault`, or wait while it is `held`."""

    def __init__(self, inner: MetaStore) -> None:
        self._inner = inner
        self.fault: Exception | None = None
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def get(self, key: str) -> Entry | None:
        return await self._inner.get(key)

    async def list(self, prefix: str) -> tuple[Entries, int]:
        return await self._inner.list(prefix)

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        await self._open.wait()
        if self.fault is not None:
            raise self.fault
        return await self._inner.txn(compares, changes)

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Events]:
        return self._inner.watch(prefix, after=after)

    def session(self, *, ttl_ms: int) -> Session:
        return self._inner.session(ttl_ms=ttl_ms)

    async def close(self) -> None:
        await self._inner.close()


class Served:
    """A running node and somebody who asks."""

    def __init__(self, node: Node, metastore: Wedge) -> None:
        self.node = node
        self.metastore = metastore
        self.peer = Peer(
            host="10.0.0.9", port=50_000, local_host="10.0.0.1", local_port=9092, connection_id=1
        )
        table = registry()
        node.api_versions = table.api_versions()
        self._dispatcher = Dispatcher(node, table)
        self._correlation_id = 0

    async def call(self, request: Request, version: int) -> Any:
        """The response to a request, both having been bytes on their way."""
        self._correlation_id += 1
        parts = encode_request(
            request, version, correlation_id=self._correlation_id, client_id="test"
        )
        # Writable, and behind the size prefix: as a connection hands it over.
        frame = memoryview(bytearray(b"".join(parts)))[4:]
        answer = self._dispatcher.handle(frame, self.peer)
        if isinstance(answer, asyncio.Future):
            answer = await answer
        assert answer is not None, "a request without a response"
        whole = b"".join(answer)
        assert int.from_bytes(whole[:4], "big") == len(whole) - 4
        correlation_id, response = decode_response(ApiKey(request.api_key), version, whole[4:])
        assert correlation_id == self._correlation_id
        return response

    async def create(self, name: str, *, partitions: int = 1, **configs: str) -> Topic:
        """A topic; settings by attribute name: `retention_ms="1"`."""
        wanted = {key.replace("_", "."): value for key, value in configs.items()}
        await self.node.controller.create(
            NewTopic(name=name, partitions=partitions, configs=wanted)
        )
        return self.node.topics.named(name)

    async def fill(self, name: str, count: int, *, partition: int = 0) -> None:
        """So many records, each in a batch of its own, durable."""
        now_ms = self.node.env.clock.now_ms()
        one = self.node.topics.named(name).partition(partition)
        for _ in range(count):
            one.append(memoryview(batch(b"value", timestamp=now_ms)), now_ms=now_ms)
        await one.log.settle()


@asynccontextmanager
async def serving(
    settings: NodeSettings | None = None, *, disk: SimDisk | None = None
) -> AsyncIterator[Served]:
    """A started node; stopped cleanly at the end."""
    env = Env(
        clock=FixedClock(),
        rng=SystemRng(),
        disk=disk or SimDisk(),
        tasks=LoopTasks(),
        senders=PlainSenders(),
    )
    env.disk.mkdir(DATA)
    directory = LogDirectory(env, f"{DATA}/{LOGS}")
    metastore = Wedge(await LocalMetaStore.open(env, f"{DATA}/{META}"))
    node = Node(env, settings or NodeSettings(), metastore, directory)
    await node.start()
    try:
        yield Served(node, metastore)
    finally:
        metastore.release()
        await node.stop()
