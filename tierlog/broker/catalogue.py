"""Makes what the metastore says true on this node: opens, configures and removes partitions.

One follower of the metastore: at the start it reads everything and takes a new leader epoch for
every partition that it leads; then it applies one transaction after the other. Whoever changed
something waits with `applied` until this node acts on it.

Only a topic that stands as deleted in the metastore loses its logs. A directory nobody knows is
left alone and named in the log: a lost metastore must not take the data along.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tierlog.broker import state
from tierlog.broker.partition import Partition, log_settings
from tierlog.broker.state import DeletedState, PartitionState, TopicState
from tierlog.broker.topics import Topic, Topics
from tierlog.config import topic_config
from tierlog.hot.errors import DiskFull, LogError, TooManyFiles
from tierlog.metastore import Compare, Delete, MetaStoreError, Put
from tierlog.types import LeaderEpoch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tierlog.config import NodeSettings
    from tierlog.hot import Log, LogDirectory, LogSettings
    from tierlog.metastore import Entry, Event, MetaStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

OPENING_MAX = 8
"""Logs opened side by side: enough to keep a disk busy with their fsyncs."""

OPENING_GROUP = 256
"""Openings begun in one turn of the loop: ten thousand at once would be felt by everybody."""

RETRY_S = 1.0
"""Between two tries of what a full disk, or too many open files, does not allow now."""

CLAIM_MAX = 1000
"""Partitions claimed in one transaction."""


class Catalogue:
    def __init__(
        self, metastore: MetaStore, directory: LogDirectory, settings: NodeSettings
    ) -> None:
        self.topics = Topics()
        self._coming: dict[bytes, Topic] = {}
        """Topics whose first partitions are being opened. Nobody finds them yet: a topic without
        partitions is not one, and clients that were told of it would divide by zero."""
        self.partition_count = 0
        """Over all topics: counted here, since whoever wants one more asks."""
        self._metastore = metastore
        self._directory = directory
        self._settings = settings
        self._revision = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._opening = asyncio.Semaphore(OPENING_MAX)
        self._fault: BaseException | None = None
        self._is_patient = False

    # Starting

    async def load(self) -> None:
        """Open everything that this node holds."""
        await self._claim_epochs()
        topics, revision = await self._metastore.list(state.TOPICS)
        partitions, _ = await self._metastore.list(state.PARTITIONS)
        for entry in topics:
            self._add_topic(entry.key, TopicState.from_bytes(entry.value))
        await self._open_partitions(
            [(entry.key, PartitionState.from_bytes(entry.value)) for entry in partitions]
        )
        self._revision = revision
        await self._finish_deletions()
        self._name_strays()

    async def _claim_epochs(self) -> None:
        """Every start takes the next leader epoch, so that an older life can be told from it."""
        entries, _ = await self._metastore.list(state.PARTITIONS)
        for first in range(0, len(entries), CLAIM_MAX):
            some = entries[first : first + CLAIM_MAX]
            result = await self._metastore.txn(
                [Compare(entry.key, entry.revision) for entry in some],
                [Put(entry.key, self._claimed(entry)) for entry in some],
            )
            if not result.succeeded:
                raise RuntimeError("another node changed this node's partitions while it started")

    def _claimed(self, entry: Entry) -> bytes:
        known = PartitionState.from_bytes(entry.value)
        return PartitionState(
            replicas=known.replicas,
            isr=known.isr,
            leader=self._settings.node_id,
            leader_epoch=known.leader_epoch + 1,
        ).to_bytes()

    async def _finish_deletions(self) -> None:
        """A crash may have come between the deletion of a topic and that of its logs."""
        deleted, _ = await self._metastore.list(state.DELETED)
        for entry in deleted:
            known = DeletedState.from_bytes(entry.value)
            topic_id = bytes.fromhex(entry.key.removeprefix(state.DELETED))
            present = set(self._directory.names())
            for index in range(known.partitions):
                if (name := state.log_name(topic_id, index)) in present:
                    log = await self._directory.open_log(name, self._default_log_settings())
                    await self._directory.delete_log(log)
            await self._metastore.txn([], [Delete(entry.key)])

    def _default_log_settings(self) -> LogSettings:
        return log_settings(
            topic_config({}, self._settings),
            producer_expiration_ms=self._settings.producer_id_expiration_ms,
        )

    def _name_strays(self) -> None:
        known = {
            state.log_name(topic.id, partition.index)
            for topic in self.topics
            for partition in topic.partitions
        }
        for name in self._directory.names():
            if name not in known:
                logger.warning(
                    "%s/%s belongs to no topic that this node knows; it is left alone: remove it "
                    "by hand once you are sure that nobody misses it",
                    self._directory.path,
                    name,
                )

    # Following

    async def follow(self) -> None:
        """Apply what changes, for ever."""
        self._is_patient = True
        try:
            async for events in self._metastore.watch("/", after=self._revision):
                await self._apply(events)
                self._revision = events[-1].revision
                self._wake()
        except BaseException as fault:
            self._fault = fault
            self._wake()
            raise

    async def applied(self, revision: int) -> None:
        """Returns once this node acts on everything up to `revision`."""
        if self._fault is not None:
            raise self._fault
        if revision > self._revision:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, future))
            await future

    def _wake(self) -> None:
        still: list[tuple[int, asyncio.Future[None]]] = []
        for revision, future in self._waiting:
            if future.done():
                continue
            if self._fault is not None:
                future.set_exception(self._fault)
            elif revision <= self._revision:
                future.set_result(None)
            else:
                still.append((revision, future))
        self._waiting = still

    async def _apply(self, events: list[Event]) -> None:
        """One transaction. Topics come before their partitions, removals last."""
        partitions: list[tuple[str, PartitionState]] = []
        removed: list[Topic] = []
        for event in events:
            if event.key.startswith(state.TOPICS):
                if event.value is None:
                    topic_id = bytes.fromhex(event.key.removeprefix(state.TOPICS))
                    if (topic := self.topics.by_id.get(topic_id)) is not None:
                        removed.append(topic)
                else:
                    self._put_topic(event.key, TopicState.from_bytes(event.value))
            elif event.key.startswith(state.PARTITIONS) and event.value is not None:
                partitions.append((event.key, PartitionState.from_bytes(event.value)))
        await self._open_partitions(partitions)
        for topic in removed:
            await self._remove(topic)

    def _put_topic(self, key: str, value: TopicState) -> None:
        topic = self.topics.by_id.get(bytes.fromhex(key.removeprefix(state.TOPICS)))
        if topic is None:
            self._add_topic(key, value)
            return
        config = topic_config(value.configs, self._settings)
        self.topics.configure(topic, value.configs, config)
        for partition in topic.partitions:
            partition.log.apply(self._log_settings(topic))

    def _add_topic(self, key: str, value: TopicState) -> None:
        topic_id = bytes.fromhex(key.removeprefix(state.TOPICS))
        config = topic_config(value.configs, self._settings)
        topic = Topic(value.name, topic_id, overrides=value.configs, config=config)
        self._coming[topic_id] = topic

    def _log_settings(self, topic: Topic) -> LogSettings:
        return log_settings(
            topic.config, producer_expiration_ms=self._settings.producer_id_expiration_ms
        )

    async def _open_partitions(self, found: list[tuple[str, PartitionState]]) -> None:
        """Open side by side, show in order of the index, and new topics when they are whole."""
        wanted = [(*state.parse_partition_key(key), value) for key, value in found]
        wanted.sort(key=lambda one: one[:2])
        wanted = [one for one in wanted if self._is_new(one[0], one[1])]
        logs: list[Log] = []
        for first in range(0, len(wanted), OPENING_GROUP):
            some = wanted[first : first + OPENING_GROUP]
            logs += await asyncio.gather(*(self._open(one[0], one[1]) for one in some))
        for (topic_id, index, value), log in zip(wanted, logs, strict=True):
            topic = self._known(topic_id)
            assert topic is not None, "only what is new was opened"
            epoch = LeaderEpoch(value.leader_epoch)
            topic.partitions.append(Partition(topic, index, log, leader_epoch=epoch))
        self.partition_count += len(wanted)
        for topic in self._coming.values():
            self.topics.add(topic)
        self._coming.clear()

    def _known(self, topic_id: bytes) -> Topic | None:
        return self.topics.by_id.get(topic_id) or self._coming.get(topic_id)

    def _is_new(self, topic_id: bytes, index: int) -> bool:
        topic = self._known(topic_id)
        return topic is not None and index >= len(topic.partitions)

    async def _open(self, topic_id: bytes, index: int) -> Log:
        async with self._opening:
            topic = self._known(topic_id)
            assert topic is not None, "only what is new is opened"
            name, settings = state.log_name(topic_id, index), self._log_settings(topic)
            return await self._surely(lambda: self._directory.open_log(name, settings))

    async def _remove(self, topic: Topic) -> None:
        """From now on nobody finds it; its files go, then the note that they must."""
        self.topics.remove(topic)
        self.partition_count -= len(topic.partitions)
        for partition in topic.partitions:
            await self._surely(partial(self._directory.delete_log, partition.log))
        try:
            await self._metastore.txn([], [Delete(state.deleted_key(topic.id))])
        except MetaStoreError as error:
            logger.warning("the note that %s is deleted stays for now: %s", topic.name, error)

    async def _surely(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what the metastore has decided already, as often as it takes.

        A node that stopped here for want of room or files could not be started either. Those who
        wait for the change hear that it is late. At the start it is better to fail and say so.
        """
        while True:
            try:
                return await work()
            except (DiskFull, TooManyFiles) as error:
                if not self._is_patient:
                    raise
                logger.error("a change to a topic waits: %s", error)  # noqa: TRY400  it is told
            await asyncio.sleep(RETRY_S)

    # Ending

    async def close(self) -> None:
        """Close every log cleanly, side by side: each that was written to costs a few syncs."""
        partitions = [one for topic in self.topics for one in topic.partitions]
        for first in range(0, len(partitions), OPENING_GROUP):
            some = partitions[first : first + OPENING_GROUP]
            await asyncio.gather(*(self._close(one) for one in some))

    async def _close(self, partition: Partition) -> None:
        try:
            await partition.log.close()
        except LogError as error:
            # The next start reads its tail again; the others need not pay for that.
            logger.warning("%s-%d: %s", partition.topic.name, partition.index, error)
