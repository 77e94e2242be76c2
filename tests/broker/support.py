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
from tierlog.broker.dispatch import Dispatcher, RawHandler
from tierlog.broker.handlers import registry
from tierlog.broker.node import Node
from tierlog.broker.request import Answer, Parts, Peer
from tierlog.broker.topics import INTERNAL, Topic
from tierlog.config import NodeSettings
from tierlog.config.directories import LOGS, META
from tierlog.env import Env, LocalTasks, PlainSenders, SystemRng
from tierlog.hot import LogDirectory
from tierlog.metastore import Entry, Event, LocalMetaStore, MetaStore, Session, TxnResult
from tierlog.metastore.port import Change, Compare
from tierlog.sim.disk import SimDisk
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.header import decode_response, encode_request
from tierlog.wire.registry import Registry
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
    """A metastore whose transactions fail with `fault`, or wait at a gate that the test opens."""

    def __init__(self, inner: MetaStore) -> None:
        self.inner = inner
        self.fault: Exception | None = None
        self._gate = asyncio.Event()
        self._gate.set()
        self._holds_reads = False
        self._arrivals = asyncio.Semaphore(0)

    def hold(self, *, reads: bool = False) -> None:
        """From now on transactions wait, or the `reads` before them."""
        self._gate.clear()
        self._holds_reads = reads

    async def reached(self) -> None:
        """Return once one more waits."""
        await self._arrivals.acquire()

    def release(self) -> None:
        self._gate.set()

    async def _pass(self, *, reads: bool) -> None:
        if reads == self._holds_reads and not self._gate.is_set():
            self._arrivals.release()
            await self._gate.wait()

    async def get(self, key: str) -> Entry | None:
        await self._pass(reads=True)
        return await self.inner.get(key)

    async def list(self, prefix: str) -> tuple[Entries, int]:
        return await self.inner.list(prefix)

    async def txn(self, compares: Sequence[Compare], changes: Sequence[Change]) -> TxnResult:
        await self._pass(reads=False)
        if self.fault is not None:
            raise self.fault
        return await self.inner.txn(compares, changes)

    def watch(self, prefix: str, *, after: int) -> AsyncIterator[Events]:
        return self.inner.watch(prefix, after=after)

    def session(self, *, ttl_ms: int) -> Session:
        return self.inner.session(ttl_ms=ttl_ms)

    async def close(self) -> None:
        await self.inner.close()


class Served:
    """A running node and somebody who asks."""

    def __init__(
        self,
        node: Node,
        metastore: Wedge,
        disk: SimDisk,
        table: Registry[RawHandler] | None = None,
    ) -> None:
        """`table`: what is served, if not the broker's own APIs."""
        self.node = node
        self.metastore = metastore
        self.disk = disk
        self.peer = Peer(
            host="10.0.0.9", port=50_000, local_host="10.0.0.1", local_port=9092, connection_id=1
        )
        table = table or registry()
        node.api_versions = table.api_versions()
        self._dispatcher = Dispatcher(node, table)
        self._correlation_id = 0

    async def call(self, request: Request, version: int) -> Any:
        """The response to a request, both having been bytes on their way."""
        answer = self.send(request, version)
        asked_id = self._correlation_id
        if isinstance(answer, asyncio.Future):
            answer = await answer
        assert answer is not None, "a request without a response"
        told_id, response = self.decoded(request, version, answer)
        assert told_id == asked_id
        return response

    def send(self, request: Request, version: int) -> Answer:
        """The answer as a connection gets it."""
        asked_id = self._correlation_id = self._correlation_id + 1
        parts = encode_request(request, version, correlation_id=asked_id, client_id="test")
        # Writable, and behind the size prefix: as a connection hands it over.
        frame = memoryview(bytearray(b"".join(parts)))[4:]
        return self.handle(frame)

    def handle(self, frame: memoryview) -> Answer:
        return self._dispatcher.handle(frame, self.peer)

    @staticmethod
    def decoded(request: Request, version: int, answer: Parts) -> tuple[int, Any]:
        """Correlation id and response."""
        whole = b"".join(answer)
        assert int.from_bytes(whole[:4], "big") == len(whole) - 4
        return decode_response(ApiKey(request.api_key), version, whole[4:])

    async def create(self, name: str, *, partitions: int = 1, **configs: str) -> Topic:
        """A topic; settings by attribute name: `retention_ms="1"`."""
        wanted = {key.replace("_", "."): value for key, value in configs.items()}
        await self.node.controller.create(
            NewTopic(name=name, is_internal=name in INTERNAL, partitions=partitions, configs=wanted)
        )
        return self.node.topics.named(name)

    async def fill(self, name: str, count: int, *, partition: int = 0) -> None:
        """So many records, each in a batch of its own, durable."""
        now_ms = self.node.env.clock.now_ms()
        one = self.node.topics.named(name).partition(partition)
        for _ in range(count):
            one.append(memoryview(batch(b"value", timestamp=now_ms)), now_ms)
        await one.log.settle()


@asynccontextmanager
async def serving(
    settings: NodeSettings | None = None, *, disk: SimDisk | None = None
) -> AsyncIterator[Served]:
    """A started node; stopped cleanly at the end."""
    disk = disk or SimDisk()
    env = Env(
        clock=FixedClock(),
        rng=SystemRng(),
        disk=disk,
        tasks=LoopTasks(),
        senders=PlainSenders(),
    )
    disk.mkdir(DATA)
    directory = LogDirectory(env, f"{DATA}/{LOGS}")
    metastore = Wedge(await LocalMetaStore.open(env, f"{DATA}/{META}"))
    node = Node(env, settings or NodeSettings(), metastore, directory)
    try:
        await node.start()
        yield Served(node, metastore, disk)
    finally:
        metastore.release()
        await node.stop()
