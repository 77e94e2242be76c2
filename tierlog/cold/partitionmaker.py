"""Makes tiered partitions: their logs as they go on from the bucket, and what tiers them.

Everything here is read from the local disk. The store is asked only where a log must be begun anew
from what is cold (`reopening`), and not for long.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.head import Head, Incarnation, Writer
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.merger import Merger, leftovers
from tierlog.cold.pagecache import PageCache
from tierlog.cold.prefix import ColdPrefix
from tierlog.cold.publisher import Place, Publisher
from tierlog.cold.refusals import HeadLost, name_of
from tierlog.cold.reopening import open_tiered, seed_from
from tierlog.cold.tieredpartition import TieredPartition
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.cold.tierstats import TierStats
from tierlog.env import Env
from tierlog.hot import Log, LogDirectory, LogSettings, Seed
from tierlog.hot.log import FIRST_OFFSET
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.objectstore.port import ObjectStore
from tierlog.types import LeaderEpoch, Offset

CLAIM_SECONDS = 5.0
"""How long a start waits for a store that answered a moment ago, for the sake of one partition."""


class PartitionMaker:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        settings: TierSettings,
        stats: TierStats,
        *,
        prefix: str,
        data: str,
        node_id: int,
        process: str,
        incarnation: Incarnation,
        is_idle: Callable[[], bool],
    ) -> None:
        """`prefix` is the cluster's own in the store, `data` the node's directory. `is_idle` says
        whether nobody waits for an upload."""
        self.copies = LocalCopies(env, f"{data}/cold")
        """Of HEADs; that of a deleted partition is removed."""
        self._env = env
        self._store = store
        self._settings = settings
        self._stats = stats
        self._prefix = prefix
        self._node_id = node_id
        self._process = process
        self._incarnation = incarnation
        self._is_idle = is_idle
        self.pages = PageCache(store, tasks=env.tasks)
        self.trouble: Callable[[], str | None] = lambda: None
        """Why the store need not be asked now, if somebody knows."""
        self.check_life: Callable[[], Awaitable[object]] | None = None
        """Raises where the cluster was restored elsewhere: before a HEAD is put back."""

    async def open(self) -> None:
        """Before anything else."""
        await self.copies.open()
        await self._env.tasks.in_thread(leftovers, self._env.disk, self.copies.path)

    async def open_log(
        self,
        directory: LogDirectory,
        name: str,
        settings: LogSettings,
        *,
        topic_id: str,
        topic: TopicRecord,
        index: int,
        leader_epoch: LeaderEpoch,
        tiering: TopicTiering,
        is_first: bool,
    ) -> Log:
        """Open the log of a tiered partition, before it is attached: where it does not go on from
        the bucket it is begun anew there. Asks the store only then, and not for long: raises
        `StoreUnavailable`, and can be called again. `is_first`: the partition was just made, so
        that there is nothing to go on from."""
        publisher = self._publisher(
            topic_id, topic, index, leader_epoch=leader_epoch, tiering=tiering
        )
        head = await self.copies.load(topic_id, index)
        claimed = partial(self._claimed_soon, publisher)
        return await open_tiered(directory, name, settings, head, claimed, is_first=is_first)

    async def _claimed_soon(self, publisher: Publisher) -> tuple[Head, Seed] | None:
        if (why := self.trouble()) is not None:
            raise StoreUnavailable(why)
        try:
            async with asyncio.timeout(CLAIM_SECONDS):
                return await self._claimed(publisher)
        except TimeoutError:
            raise StoreUnavailable("the store does not answer") from None

    async def _claimed(self, publisher: Publisher) -> tuple[Head, Seed] | None:
        """HEAD, so that nobody moves it any more, and the past of a log that begins at its end."""
        try:
            if await publisher.refresh() is None:
                return None
            head = await publisher.claim()
        except HeadLost:
            head = await publisher.repair()
        prefix = ColdPrefix(publisher.keys, self.pages, head=head)
        return head, await seed_from(self._store, prefix, head)

    async def make(
        self,
        topic_id: str,
        topic: TopicRecord,
        index: int,
        log: Log,
        *,
        leader_epoch: LeaderEpoch,
        tiering: TopicTiering,
    ) -> TieredPartition:
        """Reads the local copy of its HEAD, asks no store."""
        start = next(iter(log.segments)).base_offset
        publisher = self._publisher(
            topic_id, topic, index, leader_epoch=leader_epoch, tiering=tiering, start=start
        )
        prefix = ColdPrefix(publisher.keys, self.pages, head=await publisher.load())
        prefix.refresh = publisher.refresh
        publisher.on_fence = partial(prefix.close_to_writers, of=name_of(publisher.place))
        partition = TieredPartition(
            self._env,
            self._store,
            log,
            publisher,
            prefix,
            node_id=self._node_id,
            settings=self._settings,
            tiering=tiering,
            stats=self._stats,
        )
        partition.chores.append(self._merger(partition, tiering))
        return partition

    def _publisher(
        self,
        topic_id: str,
        topic: TopicRecord,
        index: int,
        *,
        leader_epoch: LeaderEpoch,
        tiering: TopicTiering,
        start: Offset = FIRST_OFFSET,
    ) -> Publisher:
        return Publisher(
            self._store,
            PartitionKeys(self._prefix, topic_id, index),
            self._env,
            place=Place(
                topic=topic.name,
                topic_id=topic_id,
                partition=index,
                partition_count=topic.partitions,
                start=start,
                policy=tiering.policy,
            ),
            writer=Writer(leader_epoch, self._process),
            incarnation=self._incarnation,
            copies=self.copies,
            check_life=self.check_life,
        )

    def _merger(self, partition: TieredPartition, tiering: TopicTiering) -> Merger:
        return Merger(
            self._env,
            self._store,
            partition.uploader,
            self.pages,
            directory=self.copies.path,
            node_id=self._node_id,
            settings=self._settings,
            tiering=tiering,
            stats=self._stats,
            is_idle=self._is_idle,
        )
