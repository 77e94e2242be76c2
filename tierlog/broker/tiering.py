"""The cold tier as the topics of this node see it: who is tiered, by which rules, and what is read
from the bucket.

Serving never waits for the store: a start gives it a few seconds to show whether it lies, and goes
on without it if it does not answer. A bucket that belongs to another life of the cluster makes the
node read-only: what it acknowledged would not be found by the life that owns the bucket.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from tierlog.broker.errors import ClusterInStore, PolicyViolation, UnknownTopic
from tierlog.broker.holds import Holds
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.expiry import covering
from tierlog.cold.head import Incarnation
from tierlog.cold.holds import offsets_of
from tierlog.cold.refusals import ForeignIncarnation, HeadMissing
from tierlog.cold.restore import find_clusters
from tierlog.cold.scrubber import Scrubber
from tierlog.cold.scrubsettings import ScrubSettings
from tierlog.cold.tier import ColdTier
from tierlog.cold.tieredpartition import STORE_AWAY
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.config.definition import LONG_MAX
from tierlog.config.directories import CACHE, COLD
from tierlog.env import LocalTasks
from tierlog.errors import TierlogError
from tierlog.fetchproxy.clients import Price
from tierlog.fetchproxy.proxy import FetchProxy
from tierlog.fetchproxy.settings import ProxySettings, default_cache_bytes
from tierlog.metastore import values
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.objectstore.probe import probe
from tierlog.table.keeper import TableKeeper
from tierlog.table.settings import TableSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tierlog.broker.partition import Partition
    from tierlog.broker.topics import Topic
    from tierlog.cold.head import Policy
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.config import NodeSettings, TopicConfig
    from tierlog.env import Env
    from tierlog.hot import Log, LogDirectory, LogSettings
    from tierlog.metastore.values import ClusterState
    from tierlog.objectstore.port import ObjectStore
    from tierlog.types import LeaderEpoch, Offset

logger = logging.getLogger(__name__)

RETRY_S = 5.0
"""Between two tries to write a deletion into a store that does not take it."""

READY_POLL_S = 0.1
"""Between two looks whether the store may be written to."""

READY_WAIT_S = 30.0
"""How long a deletion waits for the store; clients give up after 30 s by default."""

FIRST_EPOCH = 0
"""Of a partition that was just made: every start of the node takes the next one."""

POLICY_WAIT_S = 15.0
"""How long a change of retention waits for the store: half of what clients do by default."""

AUTOMATIC = -1
"""Of `tierlog.cache.bytes`."""


class Patience:
    """With a store that fails again and again: which failures are worth a line in the log."""

    def __init__(self) -> None:
        self.failure_count = 0
        """In a row."""

    def failed(self) -> bool:
        """The first one is, and each time that there are twice as many."""
        self.failure_count += 1
        return self.failure_count & (self.failure_count - 1) == 0

    def succeeded(self) -> None:
        self.failure_count = 0


class Tiering:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        settings: NodeSettings,
        data: str,
        *,
        cluster: ClusterState,
        on_founded: Callable[[], Awaitable[None]],
        on_foreign: Callable[[TierlogError], None],
        config_of: Callable[[bytes], Awaitable[TopicConfig | None]] | None = None,
        tier_settings: TierSettings | None = None,
        table_settings: TableSettings | None = None,
    ) -> None:
        """`config_of` reads a topic's settings as the metastore has them now; None: it is gone."""
        self.store = store
        self.tier = ColdTier(
            env,
            store,
            tier_settings or tier_settings_of(settings),
            data=data,
            cluster_id=cluster.id,
            node_id=settings.node_id,
            process=str(env.rng.uuid()),
            incarnation=Incarnation(cluster.incarnation, cluster.incarnation_id),
            probe=partial(probe, store, env.rng),
            is_founded=cluster.in_store,
            on_founding=None
            if settings.tierlog_new_cluster
            else partial(check_store_is_free, store, cluster.id),
            on_founded=on_founded,
            on_refused=self._refused,
            policy_of=None if config_of is None else partial(policy_of, config_of),
        )
        self.scrubber = Scrubber(
            env,
            store,
            self.tier.partitions,
            self.tier.maker.pages,
            path=f"{data}/{COLD}",
            stats=self.tier.stats,
            probe=partial(probe, store, env.rng),
            settings=scrub_settings_of(settings),
        )
        self.tier.chores.append(self.scrubber)
        # Workers of their own: a conversion takes longer than an upload may wait.
        self._workers = LocalTasks(thread_count=1) if isinstance(env.tasks, LocalTasks) else None
        self.tables = TableKeeper(
            env,
            store,
            self.tier.partitions,
            directory=f"{data}/{COLD}",
            node_id=settings.node_id,
            settings=table_settings or table_settings_of(settings),
            tasks=self._workers,
        )
        self.tier.chores.append(self.tables)
        self.proxy = FetchProxy(
            env,
            store,
            proxy_settings(env, settings, data),
            f"{data}/{CACHE}",
            on_damage=self.scrubber.suspect,
        )
        self.holds = Holds(env, self.tier)
        self._env = env
        self._on_foreign = on_foreign
        self._finding: set[asyncio.Task[None]] = set()
        self._telling: dict[str, asyncio.Task[None]] = {}
        # Of all partitions together: ten thousand of them may wait for one store.
        self._with_finding = Patience()
        self._with_deleting = Patience()

    async def start(self) -> None:
        """Raises `StoreLies` or `ForeignIncarnation`, if the store says so in time."""
        await self.proxy.start()
        await self.tier.start()

    def _refused(self, why: TierlogError) -> None:
        if isinstance(why, ForeignIncarnation):
            self._on_foreign(why)

    async def stop(self) -> None:
        going_on = [*self._finding, *self._telling.values()]
        for task in going_on:
            task.cancel()
        await asyncio.gather(*going_on, return_exceptions=True)
        await self.holds.stop()
        await self.tier.stop()
        if self._workers is not None:
            self._workers.end_workers()
            self._workers.close()
        await self.proxy.close()

    # Topics

    async def open_log(
        self,
        directory: LogDirectory,
        topic: Topic,
        index: int,
        settings: LogSettings,
        *,
        count: int,
        leader_epoch: LeaderEpoch,
    ) -> Log:
        """A log that does not go on from where the bucket ends is begun anew there (rule 5.1)."""
        name = values.log_name(topic.id, index)
        if not topic.config.remote_storage_enable:
            return await directory.open_log(name, settings)
        return await self.tier.maker.open_log(
            directory,
            name,
            settings,
            topic_id=topic.id.hex(),
            topic=record_of(topic, count),
            index=index,
            leader_epoch=leader_epoch,
            tiering=tiering_of(topic.config),
            is_first=leader_epoch == FIRST_EPOCH,
        )

    async def attach(
        self, topic: Topic, index: int, log: Log, *, count: int, leader_epoch: LeaderEpoch
    ) -> ColdPrefix | None:
        """The partition's cold side; None if the topic is not tiered."""
        if not topic.config.remote_storage_enable:
            return None
        cold = await self.tier.attach(
            topic.id.hex(),
            record_of(topic, count),
            index,
            log,
            leader_epoch=leader_epoch,
            tiering=tiering_of(topic.config),
        )
        if cold.head is None and was_dropped(log):
            # There is no local copy to say from where on.
            cold.is_unknown = True
            task = self._env.tasks.spawn(self._find_head(topic.id.hex(), index), name="find HEAD")
            self._finding.add(task)
            task.add_done_callback(self._finding.discard)
        return cold

    async def _find_head(self, topic_id: str, index: int) -> None:
        """As often as it takes, for as long as the partition is there."""
        while (partition := self.tier.partitions.get((topic_id, index))) is not None:
            try:
                head = await partition.uploader.publisher.refresh()
            except TierlogError as error:
                if self._with_finding.failed():
                    logger.warning(
                        "what %s has in the store is unknown (as of %d partitions, failure %d): %s",
                        partition.uploader.name,
                        len(self._finding),
                        self._with_finding.failure_count,
                        error,
                    )
            else:
                self._with_finding.succeeded()
                if head is not None:
                    partition.prefix.adopt(head)
                if head is not None or not was_dropped(partition.log):
                    partition.prefix.is_unknown = False
                    return
                self._tell_lost(partition)
            await asyncio.sleep(RETRY_S)

    def _tell_lost(self, partition: TieredPartition) -> None:
        """A store that was not mounted, a HEAD that somebody deleted: for a consumer its records
        are not there now, which is not the same as never."""
        lost = HeadMissing(
            partition.prefix.keys.head, end=partition.log.log_start, of=partition.uploader.name
        )
        if partition.status.last_error != str(lost):
            logger.error("%s", lost)
        partition.status.last_error = str(lost)

    def reconfigure(self, topic: Topic) -> None:
        """Its settings or the number of its partitions changed. The bucket knows of every topic:
        a restore brings back those that are not tiered, too, if only their names."""
        record = record_of(topic, len(topic.partitions))
        self.tier.reconfigure(topic.id.hex(), record, tiering_of(topic.config))

    async def detach(self, topic_id: bytes, count: int) -> None:
        """Its logs are about to be closed for good."""
        for index in range(count):
            await self.tier.detach(topic_id.hex(), index)

    async def delete(self, topic_id: bytes, count: int, *, name: str) -> None:
        """Write the deletion into the bucket, as often as it takes; then nobody restores it."""
        while True:
            try:
                await self.tier.delete_topic(topic_id.hex())
                self._with_deleting.succeeded()
                break
            except ForeignIncarnation:
                return  # The bucket is not this cluster's any more.
            except TierlogError as error:
                if self._with_deleting.failed():
                    count = self._with_deleting.failure_count
                    logger.warning(
                        "the deletion of %s is not in the store yet (failure %d): %s",
                        name,
                        count,
                        error,
                    )
            await asyncio.sleep(RETRY_S)
        for index in range(count):
            try:
                await self.tier.maker.copies.remove(topic_id.hex(), index)
            except OSError as fault:
                logger.warning("the copy of a deleted partition's manifest stays: %s", fault)

    def check_may_delete(self, cold: ColdPrefix, end: Offset) -> None:
        """Raises why records of the bucket below `end` cannot be deleted, if that is for good: by a
        hold, by a store that lies, or by one that belongs to another life of the cluster."""
        if cold.log_start < cold.uploaded_end and self.tier.refusal is not None:
            raise self.tier.refusal
        held = covering(cold.holds, cold.log_start, end)
        if held is not None:
            raise PolicyViolation(f"{offsets_of(held.start, held.end)} are on hold {held.id}")

    async def tell_policy(self, topic: Topic) -> None:
        """How long the topic's records live stands in the bucket when this returns (U7b).

        Raises what keeps it from there: the setting is stored and holds all the same, and nothing
        expires or is deleted by an older one, but a node that knows only the bucket would not know
        of it. To ask again does no harm. A store that is away is waited for, but not for long.
        """
        topic_id, pause_s, clock = topic.id.hex(), READY_POLL_S, self._env.clock
        until, said = clock.monotonic() + POLICY_WAIT_S, self.tier.last_error
        while not self.tier.is_policy_told(topic_id):
            if self.tier.refusal is not None:
                raise self.tier.refusal
            if self.tier.is_ready:
                try:
                    if await self._told(topic_id, within_s=until - clock.monotonic()):
                        continue
                    said = "the store is silent"
                except STORE_AWAY as fault:
                    said = str(fault)
            if clock.monotonic() >= until:
                raise StoreUnavailable(
                    f"the settings of {topic.name} are stored, and nothing of it expires until the "
                    f"bucket knows of them: {said}"
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    async def _told(self, topic_id: str, *, within_s: float) -> bool:
        """Whether it is done in time. Else it goes on: nobody knows how a publish ended that was
        given up half way."""
        task = self._telling.get(topic_id)
        if task is None:
            task = self._env.tasks.spawn(self.tier.tell_policy(topic_id), name="tell policy")
            self._telling[topic_id] = task
            task.add_done_callback(partial(self._was_told, topic_id))
        done, _ = await asyncio.wait([task], timeout=max(within_s, 0))
        if done:
            task.result()
        return bool(done)

    def _was_told(self, topic_id: str, task: asyncio.Task[None]) -> None:
        del self._telling[topic_id]
        if not task.cancelled():
            task.exception()  # Whoever still waits hears it; the next change asks again.

    async def delete_records(self, partition: Partition) -> None:
        """What is trimmed in the log is deleted in the bucket when this returns. A publish may come
        in between and bring more: then HEAD is told again.

        Raises what keeps HEAD from being told; the uploader tells it later. A store that was not
        probed yet, or is away, is waited for, but not for ever.
        """
        cold, key = partition.cold, (partition.topic.id.hex(), partition.index)
        assert cold is not None, "a tiered partition"
        pause_s, waited_s = READY_POLL_S, 0.0
        while cold.log_start < (start := min(partition.log.trimmed_to, cold.uploaded_end)):
            self.check_may_delete(cold, start)
            if key not in self.tier.partitions:
                raise UnknownTopic(partition.topic.name)
            if self.tier.is_ready:
                await self.tier.move_log_start(*key, start)
            elif waited_s > READY_WAIT_S:
                raise StoreUnavailable(f"{self.tier.last_error}; the store is told later")
            else:
                await asyncio.sleep(pause_s)
                waited_s, pause_s = waited_s + pause_s, min(2 * pause_s, 1.0)


async def check_store_is_free(store: ObjectStore, own_id: str = "") -> None:
    """A data directory that is empty beside a store that is not: somebody lost the one, or mistook
    the other. Raises `ClusterInStore` if there is another cluster than this one."""
    others = [one for one in await find_clusters(store) if one != own_id]
    if others:
        raise ClusterInStore(others)


async def check_at_first_start(store: ObjectStore) -> None:
    """Before anything is made. A store that does not answer is asked again when it does."""
    try:
        await check_store_is_free(store)
    except StoreUnavailable as error:
        logger.warning("it is not known whether the store holds a cluster already: %s", error)


def was_dropped(log: Log) -> bool:
    """Whether records went from here to the bucket: nobody else moves the start without a trim."""
    return log.log_start > log.trimmed_to


def record_of(topic: Topic, count: int) -> TopicRecord:
    return TopicRecord(name=topic.name, partitions=count, configs=dict(topic.overrides))


def tiering_of(config: TopicConfig) -> TopicTiering:
    return TopicTiering(
        upload_lag_max_ms=config.tierlog_upload_lag_max_ms,
        local_retention_ms=config.local_retention_ms,
        local_retention_bytes=config.local_retention_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        copies=not config.remote_log_copy_disable,
        table=config.tierlog_table_enable,
    )


def tier_settings_of(settings: NodeSettings) -> TierSettings:
    return TierSettings(
        garbage_grace_ms=settings.tierlog_garbage_grace_ms,
        merge_bytes_max=settings.tierlog_merge_max_bytes,
        merge_interval_ms=settings.tierlog_merge_interval_ms,
    )


def scrub_settings_of(settings: NodeSettings) -> ScrubSettings:
    return ScrubSettings(byte_period_ms=settings.tierlog_scrub_byte_period_ms)


def table_settings_of(settings: NodeSettings) -> TableSettings:
    return TableSettings(
        garbage_grace_ms=settings.tierlog_garbage_grace_ms,
        merge_bytes_max=settings.tierlog_merge_max_bytes,
    )


async def policy_of(
    config_of: Callable[[bytes], Awaitable[TopicConfig | None]], topic_id: str
) -> Policy | None:
    config = await config_of(bytes.fromhex(topic_id))
    return None if config is None else tiering_of(config).policy


def _limit(rate: int) -> float | None:
    return None if rate == LONG_MAX else rate


def proxy_settings(env: Env, settings: NodeSettings, data: str) -> ProxySettings:
    wanted = settings.tierlog_cache_bytes
    return ProxySettings(
        cache_bytes=default_cache_bytes(env.disk, data) if wanted == AUTOMATIC else wanted,
        gets_per_second=settings.tierlog_cold_gets_per_second,
        client_gets_per_second=_limit(settings.tierlog_cold_client_gets_per_second),
        price=Price(get=settings.tierlog_price_get_usd, gigabyte=settings.tierlog_price_get_gb_usd),
    )
