"""A node with a bucket, in the simulated world: time is virtual, so that uploads, drops and waits
happen as they would, at once.

    @in_world
    async def test_something(lives: Lives) -> None:
        async with lives.node() as served:
            await served.tiered("t")
            await served.make_cold("t", b"a", b"b")

`lives` has as many lives of the node as the test wants, one after the other, on one disk and one
bucket. Its `store` can be closed, as in an outage, and made to wait before it answers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from tests.broker import asks
from tests.broker.support import Served
from tests.cold.tiering import Door, play
from tierlog.broker.node import Node
from tierlog.broker.partition import Partition
from tierlog.broker.topics import Topic
from tierlog.cold.clusterstate import ClusterState, decode_state
from tierlog.cold.codec import decode_head
from tierlog.cold.head import Head
from tierlog.cold.layout import STATE, PartitionKeys, cluster_prefix
from tierlog.cold.tieredpartition import TieredPartition
from tierlog.config import NodeSettings
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.wire.error_codes import ErrorCode

T = TypeVar("T")

NODE = "node"
DATA = "/data"
PATIENCE_S = 600.0
NEVER_MS = str(10**12)


class Gate(Door):
    """A store that answers reads of segments when the test lets it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.held = 0
        """Requests that came to a closed gate."""
        self.silence_s = 0.0
        """How long every request takes, to come to nothing."""

    async def _ask(self, kind: str, key: str, land: Callable[[], T]) -> T:
        if kind in ("get", "get_tail") and "/seg/" in key and not self.is_open.is_set():
            self.held += 1
            await self.is_open.wait()
        if self.silence_s:
            await asyncio.sleep(self.silence_s)
            raise StoreUnavailable("silent")
        return await super()._ask(kind, key, land)


class ColdServed(Served):
    """A running node with a bucket."""

    async def tiered(self, name: str, *, partitions: int = 1, **configs: str) -> Topic:
        """A topic that seals when told, drops what is cold at once, and keeps it there. Without a
        table, which would ask the store, too."""
        wanted = {"local_retention_ms": "0", "segment_ms": NEVER_MS, "retention_ms": "-1"} | configs
        wanted.setdefault("tierlog_upload_lag_max_ms", NEVER_MS)
        wanted.setdefault("tierlog_table_enable", "false")
        return await self.create(name, partitions=partitions, **wanted)

    def at(self, name: str, index: int = 0) -> Partition:
        return self.node.topics.named(name).partition(index)

    def uploads(self, name: str, index: int = 0) -> TieredPartition:
        assert self.node.tiering is not None
        return self.node.tiering.tier.partitions[self.at(name).topic.id.hex(), index]

    async def append(
        self, name: str, *values: bytes, index: int = 0, at_ms: int | None = None
    ) -> None:
        """One batch for each value, a millisecond apart from `at_ms` on."""
        one, now_ms = self.at(name, index), self.node.now_ms()
        first_ms = now_ms if at_ms is None else at_ms
        for number, value in enumerate(values):
            data = asks.batch_of(self, value, at_ms=first_ms + number)
            one.append(memoryview(bytearray(data)), now_ms)
        await one.log.settle()

    async def seal(
        self, name: str, *values: bytes, index: int = 0, at_ms: int | None = None
    ) -> None:
        """The same, as a segment that is sealed behind them."""
        await self.append(name, *values, index=index, at_ms=at_ms)
        self.at(name, index).log.roll()
        await self.at(name, index).log.settle()

    async def make_cold(
        self, name: str, *values: bytes, index: int = 0, at_ms: int | None = None
    ) -> None:
        """The same, in the bucket and nowhere else."""
        await self.seal(name, *values, index=index, at_ms=at_ms)
        one = self.at(name, index)
        await until(lambda: one.log.log_start == one.log.log_end)

    async def values(self, name: str, start: int = 0, *, index: int = 0) -> list[bytes]:
        """What a consumer gets from `start` to the end; offsets are checked to be in order."""
        found: list[bytes] = []
        end = self.at(name, index).high_watermark
        while start < end:
            topic = asks.fetch_topic(name, index, offset=start)
            answer = await asks.fetch(self, topic, wait_ms=5000)
            assert answer.error_code == ErrorCode.NONE
            records = asks.records_in(answer.records)
            assert [one.offset for one in records] == [*range(start, start + len(records))]
            assert records
            found += [one.value or b"" for one in records]
            start += len(records)
        return found


class Lives:
    """Lives of one node, beside one bucket."""

    def __init__(self, world: SimWorld, bucket: SimBucket) -> None:
        self.world = world
        self.bucket = bucket
        self.env = world.env(NODE)
        self.store = Gate(bucket, self.env)
        self.settings = NodeSettings()

    @asynccontextmanager
    async def node(self, **settings: Any) -> AsyncIterator[ColdServed]:
        """One life, which ends cleanly."""
        wanted = replace(self.settings, **settings)
        node = await Node.open(self.env, wanted, DATA, store=self.store)
        try:
            await node.start()
            yield ColdServed(node, None, self.env.disk)  # type: ignore[arg-type]  # nobody wedges it
        finally:
            await node.stop()

    def head(self, topic: Topic, index: int = 0) -> Head:
        """As it stands in the bucket."""
        key = PartitionKeys(self._prefix(), topic.id.hex(), index).head
        return decode_head(self.bucket.shelf.items[key].data, key=key)

    def state(self) -> ClusterState:
        return decode_state(self.bucket.shelf.items[self._prefix() + STATE].data)

    def _prefix(self) -> str:
        cluster = next(key for key in self.bucket.shelf.items if key.endswith(STATE))
        return cluster_prefix("", cluster.removesuffix("/" + STATE))

    def spoil_segments(self) -> None:
        """One bit of every segment object is wrong from now on, wherever it is read."""
        for key, item in self.bucket.shelf.items.items():
            if "/seg/" in key:
                data = bytearray(item.data)
                data[len(data) // 4] ^= 1
                self.bucket.shelf.items[key] = replace(item, data=bytes(data))


def in_world(scenario: Callable[[Lives], Awaitable[None]]) -> Callable[[], None]:
    """A test that happens in a world of its own."""

    def test() -> None:
        async def run(world: SimWorld, bucket: SimBucket) -> None:
            async def live() -> None:
                await scenario(Lives(world, bucket))

            await world.start(NODE, live(), what="live")

        play(run)

    test.__name__ = getattr(scenario, "__name__", "test")
    test.__doc__ = scenario.__doc__
    return test


async def until(happened: Callable[[], object]) -> None:
    """Virtual time passes until it has; nothing that takes ten minutes happens."""
    for _ in range(int(PATIENCE_S * 10)):
        if happened():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it did not happen")
