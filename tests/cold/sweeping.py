"""A bucket with topics in it, sweepers, and a way there that may be cut off at any request."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from tests.cold.makers import a_head
from tierlog.cold.clusterstate import ClusterState, TopicRecord, decode_state
from tierlog.cold.codec import encode_head
from tierlog.cold.head import Hold, Incarnation
from tierlog.cold.layout import STATE, PartitionKeys, cluster_prefix, topic_receipt_key
from tierlog.cold.statekeeper import StateKeeper
from tierlog.cold.sweeper import Sweeper
from tierlog.cold.tiersettings import TierSettings
from tierlog.cold.tierstats import TierStats
from tierlog.cold.topicreceipt import TopicReceipt, decode
from tierlog.objectstore.around import Around, Request
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Body, DeleteFailed, Doomed, Written
from tierlog.sim import SimWorld
from tierlog.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from tierlog.env import Env

T = TypeVar("T")

CLUSTER = "a-cluster"
PREFIX = cluster_prefix("", CLUSTER)
DEAD, ALIVE = "d" * 32, "a" * 32
FIRST_LIFE, SECOND_LIFE = Incarnation(1, "first life"), Incarnation(2, "second life")
GRACE_MS = 24 * 3_600_000
SETTINGS = TierSettings()
SEGMENTS = 3


class Cut(Around):
    """Notes every request, and cuts one of them off."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.asked: list[Request] = []
        self.deleted: list[str] = []
        self.cut_at: int | None = None
        self.cut_is_after = False
        self.kept: set[str] = set()
        """Keys that the store does not delete."""
        self.lies = False
        """Then a write wins whatever its condition."""
        self.on_request: Callable[[Request], Awaitable[None]] | None = None

    async def _around(self, request: Request, call: Callable[[], Awaitable[T]]) -> T:
        number = len(self.asked)
        self.asked.append(request)
        if self.on_request is not None:
            await self.on_request(request)
        if number == self.cut_at and not self.cut_is_after:
            raise StoreUnavailable("cut off before")
        answer = await call()
        if number == self.cut_at:
            raise StoreUnavailable("cut off behind")
        return answer

    async def put_if_absent(self, key: str, body: Body) -> Written:
        return await (super().put(key, body) if self.lies else super().put_if_absent(key, body))

    async def delete(self, doomed: Sequence[Doomed]) -> Sequence[DeleteFailed]:
        may_go = [one for one in doomed if one.key not in self.kept]
        failed = await super().delete(may_go)
        self.deleted += [one.key for one in may_go]
        return [*failed, *(DeleteFailed(one.key, "locked") for one in doomed if one not in may_go)]


class Scene:
    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.env: Env = world.env("node")
        self.memory = MemoryStore(self.env.clock)
        self.store = Cut(self.memory)
        self.stats = TierStats()

    async def keeper(self, life: Incarnation = FIRST_LIFE) -> StateKeeper:
        keeper = StateKeeper(self.memory, PREFIX, self.env, cluster_id=CLUSTER, incarnation=life)
        await keeper.join()
        return keeper

    def sweeper(self, life: Incarnation = FIRST_LIFE) -> Sweeper:
        """Of a process that has just joined. All its requests pass the cut, those to STATE too."""
        keeper = StateKeeper(self.store, PREFIX, self.env, cluster_id=CLUSTER, incarnation=life)
        keeper.state = self.state()
        return Sweeper(self.env, self.store, keeper, SETTINGS, self.stats, prefix=PREFIX, node_id=1)

    async def fill(self, topic_id: str, *, partitions: int = 2, hold: bool = False) -> None:
        for index in range(partitions):
            keys = PartitionKeys(PREFIX, topic_id, index)
            holds = (Hold("case-7", Offset(0), Offset(10), "asked for"),) if hold else ()
            head = replace(a_head(), topic_id=topic_id, partition=index, holds=holds)
            await self.memory.put(keys.head, BytesBody(encode_head(head)))
            for number in range(SEGMENTS):
                await self.memory.put(_segment(keys, number), BytesBody(b"segment"))
            page = keys.page(first=Offset(0), attempt=index)
            await self.memory.put(page, BytesBody(b"page"))

    async def delete(self, topic_id: str, *, name: str = "orders") -> None:
        keeper = await self.keeper()
        await keeper.put_topics({topic_id: TopicRecord(name=name, partitions=2)})
        await keeper.delete_topic(topic_id)

    async def grace(self) -> None:
        await asyncio.sleep(GRACE_MS / 1000 + 1)

    def state(self) -> ClusterState:
        return decode_state(self.memory.shelf.items[PREFIX + STATE].data)

    def left(self, topic_id: str = DEAD) -> list[str]:
        prefix = f"{PREFIX}t/{topic_id}/"
        return sorted(
            key.removeprefix(prefix) for key in self.memory.shelf.items if key.startswith(prefix)
        )

    def receipt(self, topic_id: str = DEAD) -> TopicReceipt | None:
        key = PREFIX + topic_receipt_key(topic_id)
        item = self.memory.shelf.items.get(key)
        return None if item is None else decode(item.data, key=key)


def _segment(keys: PartitionKeys, number: int) -> str:
    return keys.segment(
        base=Offset(10 * number),
        last=Offset(10 * number + 9),
        leader_epoch=LeaderEpoch(1),
        node=1,
        attempt=number,
    )


def play(scenario: Callable[[Scene], Coroutine[Any, Any, T]]) -> T:
    world = SimWorld(1, seconds_max=30 * 24 * 3600)

    async def run() -> T:
        return await scenario(Scene(world))

    return world.run(run())
