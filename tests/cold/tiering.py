"""A node with one tiered partition, in the simulated world, and a store that can go away."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from tests.hot.support import append, batch
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.codec import decode_head
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head, Incarnation
from tierlog.cold.layout import PartitionKeys, cluster_prefix
from tierlog.cold.tier import ColdTier
from tierlog.cold.tieredpartition import TieredPartition
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.env import Env
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket
from tierlog.sim.objectstore import SimStore
from tierlog.types import LeaderEpoch

T = TypeVar("T")

NODE = "node"
CLUSTER = "a-cluster"
TOPIC_ID = "0123456789abcdef0123456789abcdef"
TOPIC = TopicRecord(name="orders", partitions=1)
KEYS = PartitionKeys(cluster_prefix("", CLUSTER), TOPIC_ID, 0)
LIFE = Incarnation(1, "first life")
LOGS = LogSettings(segment_bytes=4096, index_interval_bytes=256, checkpoint_bytes=2048)
SETTINGS = TierSettings(check_interval_ms=100)
TIERING = TopicTiering(local_retention_ms=60_000)


class Door(SimStore):
    """The way to the bucket, which somebody can close."""

    is_closed = False
    asked = 0
    """Requests that came while it was closed."""
    watch: Callable[[str, str], None] = staticmethod(lambda _kind, _key: None)
    """Told of every request before it leaves."""

    async def _ask(self, kind: str, key: str, land: Callable[[], T]) -> T:
        self.watch(kind, key)
        if self.is_closed:
            self.asked += 1
            raise StoreUnavailable("the store is away")
        return await super()._ask(kind, key, land)


async def no_probe() -> None:
    """The store is believed."""


class TierNode:
    """One life of the node."""

    def __init__(self, env: Env, bucket: SimBucket, *, leader_epoch: int = 1) -> None:
        self.env = env
        self.store = Door(bucket, env)
        self.leader_epoch = leader_epoch
        self.probe: Callable[[], Awaitable[None]] | None = no_probe
        self.settings = SETTINGS
        self.tiering = TIERING
        self.logs = LOGS
        self.incarnation = LIFE
        self.is_first = True
        self.directory = LogDirectory(env, "/data/logs", reserve_bytes=0)

    async def open(self) -> "TierNode":
        self.tier = ColdTier(
            self.env,
            self.store,
            self.settings,
            data="/data",
            cluster_id=CLUSTER,
            node_id=7,
            process=self.env.rng.uuid().hex,
            incarnation=self.incarnation,
            probe=self.probe,
        )
        await self.tier.start()
        await self.open_partition()
        return self

    async def open_partition(self) -> None:
        self.log: Log = await self.tier.maker.open_log(
            self.directory,
            f"{TOPIC_ID}-0",
            self.logs,
            topic_id=TOPIC_ID,
            topic=TOPIC,
            index=0,
            leader_epoch=LeaderEpoch(self.leader_epoch),
            tiering=self.tiering,
            is_first=self.is_first,
        )
        self.prefix = await self.tier.attach(
            TOPIC_ID,
            TOPIC,
            0,
            self.log,
            leader_epoch=LeaderEpoch(self.leader_epoch),
            tiering=self.tiering,
        )

    @property
    def partition(self) -> TieredPartition:
        return self.tier.partitions[TOPIC_ID, 0]

    def produce(self, *values: bytes) -> None:
        for value in values:
            data = batch(value, timestamp=self.env.clock.now_ms())
            append(self.log, data, leader_epoch=self.leader_epoch, now_ms=self.env.clock.now_ms())

    async def produce_sealed(self, *values: bytes) -> None:
        """One segment with these records, durable."""
        self.produce(*values)
        self.log.roll()
        await self.log.settle()


async def second_partition(node: TierNode) -> TieredPartition:
    """Of another topic, on the same node."""
    topic_id, topic = "f" * 32, replace(TOPIC, name="other")
    log = await node.tier.maker.open_log(
        node.directory,
        f"{topic_id}-0",
        node.logs,
        topic_id=topic_id,
        topic=topic,
        index=0,
        leader_epoch=LeaderEpoch(1),
        tiering=node.tiering,
        is_first=True,
    )
    await node.tier.attach(
        topic_id, topic, 0, log, leader_epoch=LeaderEpoch(1), tiering=node.tiering
    )
    return node.tier.partitions[topic_id, 0]


def play(scenario: Callable[[SimWorld, SimBucket], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    world = SimWorld(seed)
    return world.run(scenario(world, SimBucket(world.rng("bucket"), world=world)))


def play_node(scenario: Callable[[TierNode], Coroutine[Any, Any, T]], seed: int = 1) -> T:
    """One life, not opened yet: the scenario may change its settings first."""

    async def run(world: SimWorld, bucket: SimBucket) -> T:
        async def live() -> T:
            return await scenario(TierNode(world.env(NODE), bucket))

        return await world.start(NODE, live(), what="live")

    return play(run, seed)


def head_in(bucket: SimBucket) -> Head:
    """HEAD as it stands in the bucket."""
    return decode_head(bucket.shelf.items[KEYS.head].data, key=KEYS.head)


def bucket_of(node: TierNode) -> SimBucket:
    return node.store._bucket


def data_of(bucket: SimBucket, entry: Entry) -> bytes:
    """The batches of a cold segment."""
    return bucket.shelf.items[KEYS.full(entry.key)].data[: entry.data_bytes]


def eager(tiering: TopicTiering = TIERING) -> TopicTiering:
    """Drops as soon as it may."""
    return replace(tiering, local_retention_ms=0)
