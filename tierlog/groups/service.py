"""The group coordinator of a node: which shard looks after a group, and the topic behind them.

`__consumer_offsets` is made when the first client asks for a coordinator. Its partitions are the
shards; each is loaded in the background when the node starts, and until then answers that it loads.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from tierlog.broker.controller import NewTopic
from tierlog.broker.errors import TopicExists
from tierlog.coordinator.errors import CoordinatorNotAvailable
from tierlog.coordinator.shard import Shard
from tierlog.errors import TierlogError
from tierlog.groups.machine import GroupMachine
from tierlog.groups.readers import Readers
from tierlog.groups.topicview import KnownTopic, TopicView
from tierlog.groups.values import GroupLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.broker.node import Node
    from tierlog.broker.topics import Topic, Topics
    from tierlog.groups.values import GroupStep

logger = logging.getLogger(__name__)

TOPIC: Final = "__consumer_offsets"
EXPIRY_S: Final = 600.0
"""`offsets.retention.check.interval.ms` of Kafka."""
MATCHING_MAX: Final = 4
"""Groups whose patterns are matched at the same time; others wait in line."""

CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(100 << 20),
    "compression.type": "producer",
}


class GroupCoordinator:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._limits = limits_of(node)
        self._shards: list[Shard[GroupMachine]] = []
        self._owed: list[set[str]] = []
        """For each shard the topics that went and that it has not forgotten yet."""
        self._view = view_of(node.topics)
        self.matching = asyncio.Semaphore(MATCHING_MAX)
        """Of beats that match patterns: what they hold meanwhile is beside what is remembered."""
        self._are_gone = asyncio.Event()
        """There are topics whose offsets are to be forgotten."""
        self._making: asyncio.Lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        node.topics.on_removed.append(self._topic_removed)
        readers = Readers(node.env.clock, self._machines)
        node.group_of = readers.group_of

    def _machines(self) -> list[GroupMachine]:
        return [shard.machine for shard in self._shards if shard.is_loaded]

    def start(self) -> None:
        """Load what there is, while others are served."""
        self._open_shards()
        self._spawn(self._expire(), "offsets expire")
        self._spawn(self._forget(), "offsets go with their topics")

    def _spawn(self, work: object, name: str) -> None:
        self._tasks.append(self._node.env.tasks.spawn(work, name=name))  # type: ignore[arg-type]

    def _open_shards(self) -> None:
        topic = self._node.topics.by_name.get(TOPIC)
        if topic is None or self._shards:
            return
        self._owed = [set() for _ in topic.partitions]
        self._shards = [
            Shard(self._node.env, partition, self._new_machine, partial(self._forget_gone, owed))
            for partition, owed in zip(topic.partitions, self._owed, strict=True)
        ]
        self._spawn(self._load(list(self._shards)), "groups load")

    async def _load(self, shards: list[Shard[GroupMachine]]) -> None:
        for shard in shards:
            try:
                await shard.load()
            except (TierlogError, OSError):
                logger.exception("a shard of the group state cannot be loaded; it is tried again")
                shard.load_later()

    def _forget_gone(self, owed: set[str], machine: GroupMachine) -> Iterator[GroupStep]:
        """Offsets in topics that went while nobody could write it down, also if their names are
        used again: by the topic's id or, where none was written, since nobody could commit to the
        new one yet."""
        is_first = True
        while owed or is_first:  # Others may go meanwhile.
            is_first = False
            ids = {name: one.id for name, one in self._node.topics.by_name.items()}
            names = frozenset(owed)
            owed.clear()
            yield from machine.strangers(ids, names)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for shard in self._shards:
            shard.close()
        if self._topic_removed in self._node.topics.on_removed:
            self._node.topics.on_removed.remove(self._topic_removed)

    # Finding

    async def ensure(self) -> None:
        """The topic is there when this returns. Raises `CoordinatorNotAvailable`."""
        if self._shards:
            return
        async with self._making:
            if self._node.topics.by_name.get(TOPIC) is None:
                await self._make()
            self._open_shards()

    async def _make(self) -> None:
        count = self._node.settings.offsets_topic_num_partitions
        try:
            await self._node.controller.create(
                NewTopic(name=TOPIC, partitions=count, configs=dict(CONFIGS), is_internal=True)
            )
        except TopicExists:
            pass
        except TierlogError as error:
            raise CoordinatorNotAvailable(f"{TOPIC} cannot be made: {error}") from error

    def shard_of(self, group_id: str) -> Shard[GroupMachine]:
        """Raises `CoordinatorNotAvailable`, `CoordinatorLoading`, `CoordinatorGone`."""
        if not self._shards:
            raise CoordinatorNotAvailable("nobody has asked for the coordinator yet")
        shard = self._shards[java_hash(group_id) % len(self._shards)]
        shard.check()
        return shard

    @property
    def loading(self) -> int:
        """Shards that are not loaded yet, or not any more."""
        return sum(not shard.is_loaded for shard in self._shards)

    @property
    def shards(self) -> list[Shard[GroupMachine]]:
        return self._shards

    def _new_machine(self) -> GroupMachine:
        return GroupMachine(self._limits, self._new_id)

    def _new_id(self, prefix: str) -> str:
        made = str(self._node.env.rng.uuid())
        return f"{prefix}-{made}" if prefix else made

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        return self._limits.consumer_assignors

    @property
    def topic_view(self) -> TopicView:
        """The topics as they are now, as groups see them."""
        topics = self._node.topics
        if self._view.generation != topics.generation:
            self._view = view_of(topics, before=self._view)
        return self._view

    # Upkeep

    def _topic_removed(self, topic: Topic) -> None:
        """From now on nobody is told of offsets in it; they are forgotten a piece at a time. The
        topic behind the shards is never removed."""
        for shard, owed in zip(self._shards, self._owed, strict=True):
            if shard.is_loaded:
                shard.machine.topic_gone(topic.name, topic.id)
            owed.add(topic.name)
        self._are_gone.set()

    async def _forget(self) -> None:
        while True:
            await self._are_gone.wait()
            self._are_gone.clear()
            for shard, owed in zip(list(self._shards), list(self._owed), strict=True):
                names = set(owed)
                if shard.is_loaded and await self._carry_out(shard, shard.machine.forgetting()):
                    owed -= names

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_S)
            for shard in self._shards:
                if shard.is_loaded:
                    await self._carry_out(shard, shard.machine.expiring(shard.now()))

    async def _carry_out(self, shard: Shard[GroupMachine], steps: Iterator[GroupStep]) -> bool:
        """All of them, with turns of others in between; False: the log takes nothing now, and the
        shard loads again."""
        machine = shard.machine
        for step in steps:
            shard.carry_out(step)
            await asyncio.sleep(0)
            if not shard.is_loaded or shard.machine is not machine:
                return False
        return True


def groups_of(node: Node) -> GroupCoordinator:
    found = node.services[GroupCoordinator]
    assert isinstance(found, GroupCoordinator), "registered under its own class"
    return found


def view_of(topics: Topics, *, before: TopicView | None = None) -> TopicView:
    known = {
        one.name: KnownTopic(one.id, len(one.partitions), one.is_internal)
        for one in topics.by_name.values()
    }
    return TopicView(known, generation=topics.generation, before=before)


def limits_of(node: Node) -> GroupLimits:
    settings = node.settings
    return GroupLimits(
        session_ms_min=settings.group_min_session_timeout_ms,
        session_ms_max=settings.group_max_session_timeout_ms,
        initial_delay_ms=settings.group_initial_rebalance_delay_ms,
        size_max=settings.group_max_size,
        metadata_bytes_max=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        consumer_session_ms=settings.group_consumer_session_timeout_ms,
        consumer_heartbeat_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_size_max=settings.group_consumer_max_size,
        consumer_assignors=tuple(settings.group_consumer_assignors.split(",")),
    )


@lru_cache(maxsize=10_000)
def java_hash(text: str) -> int:
    """`String.hashCode`, made positive as Kafka does: clients and tools find a group's partition
    by it."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(data), 2):
        value = (31 * value + (data[position] << 8 | data[position + 1])) & 0xFFFFFFFF
    return value & 0x7FFFFFFF
