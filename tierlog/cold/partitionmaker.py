"""Makes tiered partitions: their logs as they go on from the bucket, and what tiers them.

Everything here is read from the local disk. The store is asked only where a log must be begun anew
from what is cold (`reopening`).
"""

from collections.abc import Callable

from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.head import Head, Incarnation, Writer
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.merger import Merger, leftovers
from tierlog.cold.pagecache import PageCache
from tierlog.cold.prefix import ColdPrefix
from tierlog.cold.publisher import Place, Publisher
from tierlog.cold.reopening import open_tiered, seed_from
from tierlog.cold.tieredpartition import TieredPartition
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.cold.tierstats import TierStats
from tierlog.env import Env
from tierlog.hot import Log, LogDirectory, LogSettings, Seed
from tierlog.objectstore.port import ObjectStore
from tierlog.types import LeaderEpoch


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
        self._pages = PageCache(store)

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
        index: int,
    ) -> Log:
        """Open the log of a tiered partition, before it is attached: where it does not go on from
        the bucket it is begun anew there. Asks the store only then."""
        keys = PartitionKeys(self._prefix, topic_id, index)

        async def seed_of(head: Head) -> Seed:
            return await seed_from(self._store, ColdPrefix(keys, self._pages, head=head), head)

        head = await self.copies.load(topic_id, index)
        return await open_tiered(directory, name, settings, head, seed_of)

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
        keys = PartitionKeys(self._prefix, topic_id, index)
        publisher = Publisher(
            self._store,
            keys,
            self._env,
            place=Place(
                topic=topic.name,
                topic_id=topic_id,
                partition=index,
                partition_count=topic.partitions,
                start=next(iter(log.segments)).base_offset,
            ),
            writer=Writer(leader_epoch, self._process),
            incarnation=self._incarnation,
            copies=self.copies,
        )
        prefix = ColdPrefix(keys, self._pages, head=await publisher.load())
        prefix.refresh = publisher.refresh
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

    def _merger(self, partition: TieredPartition, tiering: TopicTiering) -> Merger:
        return Merger(
            self._env,
            self._store,
            partition.uploader,
            self._pages,
            directory=self.copies.path,
            node_id=self._node_id,
            settings=self._settings,
            tiering=tiering,
            stats=self._stats,
            is_idle=self._is_idle,
        )
