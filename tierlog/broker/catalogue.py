"""Makes what the metastore says true on this node: opens, configures and removes partitions.

One follower of the metastore: at the start it reads everything and takes a new leader epoch for
every partition that it leads; then it applies one transaction after the other. Whoever changed
something waits with `applied` until this node acts on it. Partitions for which there is no room now
come later, and hold up nobody else: what is deleted meanwhile may be the room. Those whose log is
gone while the store is away are shown, and opened when it answers (`late`).

Only a topic that stands as deleted in the metastore loses its logs. A directory nobody knows is
left alone and named in the log: a lost metastore must not take the data along.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from tierlog.broker.deletions import Deletions
from tierlog.broker.errors import PartitionLate
from tierlog.broker.late import AbsentLog, LatePartitions
from tierlog.broker.partition import Partition, log_settings
from tierlog.broker.topics import Topic, Topics
from tierlog.cold.errors import ColdError
from tierlog.config import topic_config
from tierlog.hot.errors import DiskFull, LogError, TooManyFiles
from tierlog.metastore import Compare, Put, values
from tierlog.metastore.values import PartitionState, TopicState
from tierlog.objectstore.errors import StoreError
from tierlog.types import LeaderEpoch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.broker.tiering import Tiering
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.config import NodeSettings
    from tierlog.hot import Log, LogDirectory, LogSettings
    from tierlog.metastore import Entry, Event, MetaStore

logger = logging.getLogger(__name__)

Wanted = tuple[bytes, int, PartitionState]
"""A partition that is to be opened: topic id, index and what is known of it."""

OPENING_MAX = 8
"""Logs opened side by side: enough to keep a disk busy with their fsyncs."""

OPENING_GROUP = 256
"""Openings begun in one turn of the loop: ten thousand at once would be felt by everybody."""

RETRY_S = 1.0
"""Between two tries of an opening that a full disk, or too many open files, does not allow now."""

CLAIM_MAX = 1000
"""Partitions claimed in one transaction."""


class Both(NamedTuple):
    """The two sides of a partition."""

    log: Log
    cold: ColdPrefix | None
    late: PartitionLate | None = None
    """Why the log is only a stand-in."""


class Catalogue:
    def __init__(
        self, metastore: MetaStore, directory: LogDirectory, settings: NodeSettings
    ) -> None:
        self.topics = Topics()
        self._coming: dict[bytes, Topic] = {}
        """Topics whose first partitions are being opened. Nobody finds them yet: a topic without
        partitions is not one, and clients that were told of it would divide by zero."""
        self._opened: dict[tuple[bytes, int], Both] = {}
        """Logs that are open and not shown yet: the others of their topic are missing."""
        self._late: dict[bytes, str] = {}
        """Topics, by id, that miss partitions for want of room; with their names."""
        self._late_tasks: set[asyncio.Task[None]] = set()
        self.partition_count = 0
        """Over all topics: counted here, since whoever wants one more asks."""
        self.tiering: Tiering | None = None
        self._metastore = metastore
        self._directory = directory
        self._settings = settings
        self._revision = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._opening = asyncio.Semaphore(OPENING_MAX)
        self._deletions = Deletions(metastore, directory, on_fault=self._break)
        self._lates = LatePartitions(directory.env.tasks, on_fault=self._break)
        self._fault: BaseException | None = None
        self._follower: asyncio.Task[None] | None = None

    # Starting

    def use(self, tiering: Tiering) -> None:
        """There is a bucket. Before `load`."""
        self.tiering = self._deletions.tiering = tiering

    async def load(self) -> None:
        """Open everything that this node holds."""
        await self._claim_epochs()
        topics, revision = await self._metastore.list(values.TOPICS)
        partitions, _ = await self._metastore.list(values.PARTITIONS)
        for entry in topics:
            self._add_topic(entry.key, TopicState.from_bytes(entry.value))
        found = [(entry.key, PartitionState.from_bytes(entry.value)) for entry in partitions]
        # Without room a start is better off failing: somebody looks.
        await self._bring(self._wanted(found))
        self._revision = revision
        await self._deletions.finish_earlier()
        self._name_strays()

    async def _claim_epochs(self) -> None:
        """Every start takes the next leader epoch, so that an older life can be told from it."""
        entries, _ = await self._metastore.list(values.PARTITIONS)
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

    def _name_strays(self) -> None:
        known = {
            values.log_name(topic.id, partition.index)
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
        self._follower = asyncio.current_task()
        try:
            async for events in self._metastore.watch("/", after=self._revision):
                await self._apply(events)
                self._revision = events[-1].revision
                self._wake()
        except BaseException as fault:
            aside, self._fault = self._fault, self._fault or fault
            self._wake()
            if aside is not None:
                raise aside from None
            raise

    def _break(self, fault: BaseException) -> None:
        """Something that `follow` left to others failed: it ends with that."""
        self._fault = self._fault or fault
        self._wake()
        if self._follower is not None:
            self._follower.cancel()

    async def applied(self, revision: int, *, name: str | None = None) -> None:
        """Returns once this node acts on everything up to `revision`, and the topic is whole."""
        await self._until(lambda: self._revision >= revision and name not in self._late.values())

    async def _until(self, is_so: Callable[[], bool]) -> None:
        if self._fault is not None:
            raise self._fault
        if not is_so():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((is_so, future))
            await future

    def _wake(self) -> None:
        still: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        for is_so, future in self._waiting:
            if future.done():
                continue
            if self._fault is not None:
                future.set_exception(self._fault)
            elif is_so():
                future.set_result(None)
            else:
                still.append((is_so, future))
        self._waiting = still

    async def _apply(self, events: list[Event]) -> None:
        """One transaction. Topics come before their partitions, removals last."""
        partitions: list[tuple[str, PartitionState]] = []
        removed: list[bytes] = []
        for event in events:
            if event.key.startswith(values.TOPICS):
                if event.value is None:
                    removed.append(bytes.fromhex(event.key.removeprefix(values.TOPICS)))
                else:
                    await self._put_topic(event.key, TopicState.from_bytes(event.value))
            elif event.key.startswith(values.PARTITIONS) and event.value is not None:
                partitions.append((event.key, PartitionState.from_bytes(event.value)))
        touched = {*removed, *(values.parse_partition_key(key)[0] for key, _ in partitions)}
        await self._until(lambda: self._late.keys().isdisjoint(touched))
        await self._bring_now_or_later(self._wanted(partitions))
        for topic_id in removed:
            if (topic := self.topics.by_id.get(topic_id)) is not None:
                await self._lates.forget(topic)
                self._remove(topic)

    async def _put_topic(self, key: str, value: TopicState) -> None:
        topic = self._known(bytes.fromhex(key.removeprefix(values.TOPICS)))
        if topic is None:
            self._add_topic(key, value)
            return
        config = topic_config(value.configs, self._settings)
        self.topics.configure(topic, value.configs, config)
        hidden = [one for (topic_id, _), one in self._opened.items() if topic_id == topic.id]
        logs = [one.log for one in topic.opened]
        for log in [*logs, *(one.log for one in hidden if one.late is None)]:
            log.apply(self._log_settings(topic))
        await self._tier(topic)

    async def _tier(self, topic: Topic) -> None:
        """A topic may become tiered while it lives, and its rules may change."""
        if self.tiering is None:
            return
        self.tiering.reconfigure(topic)
        count = len(topic.partitions)
        for one in topic.opened:
            if one.cold is None:
                one.cold = await self.tiering.attach(
                    topic, one.index, one.log, count=count, leader_epoch=one.leader_epoch
                )

    def _add_topic(self, key: str, value: TopicState) -> None:
        topic_id = bytes.fromhex(key.removeprefix(values.TOPICS))
        config = topic_config(value.configs, self._settings)
        topic = Topic(value.name, topic_id, overrides=value.configs, config=config)
        self._coming[topic_id] = topic

    def _log_settings(self, topic: Topic) -> LogSettings:
        return log_settings(
            topic.config, producer_expiration_ms=self._settings.producer_id_expiration_ms
        )

    # Opening

    def _wanted(self, found: list[tuple[str, PartitionState]]) -> list[Wanted]:
        """Those that are new, in order of the index."""
        wanted = [(*values.parse_partition_key(key), value) for key, value in found]
        wanted.sort(key=lambda one: one[:2])
        return [one for one in wanted if self._is_new(one[0], one[1])]

    async def _bring_now_or_later(self, wanted: list[Wanted]) -> None:
        """A node that stopped here for want of room or files could not be started either. Those
        who wait for just this change hear that it is late."""
        try:
            await self._bring(wanted)
        except (DiskFull, TooManyFiles) as error:
            self._say_late(error)
            for topic_id, _, _ in wanted:
                if (topic := self._known(topic_id)) is not None:
                    self._late[topic_id] = topic.name
            task = self._directory.env.tasks.spawn(self._bring_later(wanted), name="late topic")
            self._late_tasks.add(task)
            task.add_done_callback(self._late_ended)

    async def _bring_later(self, wanted: list[Wanted]) -> None:
        while True:
            await asyncio.sleep(RETRY_S)
            try:
                return await self._bring(wanted)
            except (DiskFull, TooManyFiles) as error:
                self._say_late(error)

    @staticmethod
    def _say_late(error: LogError) -> None:
        logger.error("a change to a topic waits: %s", error)

    def _late_ended(self, task: asyncio.Task[None]) -> None:
        self._late_tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._break(fault)

    async def _bring(self, wanted: list[Wanted]) -> None:
        """Open side by side, show in order of the index, and new topics when they are whole."""
        counts = {topic_id: index + 1 for topic_id, index, _ in wanted}  # In order of the index.
        for first in range(0, len(wanted), OPENING_GROUP):
            await self._open_some(wanted[first : first + OPENING_GROUP], counts)
        for topic_id, index, value in wanted:
            topic = self._known(topic_id)
            assert topic is not None, "only what is new was opened"
            opened = self._opened.pop((topic_id, index))
            epoch = LeaderEpoch(value.leader_epoch)
            partition = Partition(topic, index, opened.log, leader_epoch=epoch)
            partition.cold = opened.cold
            topic.partitions.append(partition)
            self._late.pop(topic_id, None)
            if (late := opened.late) is not None:
                partition.late = late
                self._lates.begin(partition, partial(self._open_late, partition))
        if self.tiering is not None:
            for topic_id in counts:
                if (topic := self._known(topic_id)) is not None:
                    self.tiering.reconfigure(topic)
        self.partition_count += len(wanted)
        self.topics.generation += 1
        for topic_id in [one for one in self._coming if one not in self._late]:
            self.topics.add(self._coming.pop(topic_id))
        self._wake()

    async def _open_some(self, some: list[Wanted], counts: dict[bytes, int]) -> None:
        """What fails may be tried again: those that are open stay so."""
        missing = [one for one in some if one[:2] not in self._opened]
        opened = await asyncio.gather(
            *(self._open(one, counts[one[0]]) for one in missing), return_exceptions=True
        )
        faults: list[BaseException] = []
        for (topic_id, index, _), both in zip(missing, opened, strict=True):
            if isinstance(both, BaseException):
                faults.append(both)
            else:
                self._opened[topic_id, index] = both
        # What waiting does not help with goes first.
        for fault in sorted(faults, key=lambda one: isinstance(one, DiskFull | TooManyFiles)):
            raise fault

    def _known(self, topic_id: bytes) -> Topic | None:
        return self.topics.by_id.get(topic_id) or self._coming.get(topic_id)

    def _is_new(self, topic_id: bytes, index: int) -> bool:
        topic = self._known(topic_id)
        return topic is not None and index >= len(topic.partitions)

    async def _open(self, wanted: Wanted, count: int) -> Both:
        topic_id, index, value = wanted
        async with self._opening:
            topic = self._known(topic_id)
            assert topic is not None, "only what is new is opened"
            epoch = LeaderEpoch(value.leader_epoch)
            try:
                return await self._open_both(topic, index, count=count, leader_epoch=epoch)
            except (StoreError, ColdError) as error:
                late = PartitionLate(topic.name, index, str(error))
                return Both(cast("Log", AbsentLog(late)), None, late)

    async def _open_both(
        self, topic: Topic, index: int, *, count: int, leader_epoch: LeaderEpoch
    ) -> Both:
        settings = self._log_settings(topic)
        if self.tiering is None:
            name = values.log_name(topic.id, index)
            return Both(await self._directory.open_log(name, settings), None)
        log = await self.tiering.open_log(
            self._directory, topic, index, settings, count=count, leader_epoch=leader_epoch
        )
        try:
            cold = await self.tiering.attach(
                topic, index, log, count=count, leader_epoch=leader_epoch
            )
        except BaseException:
            await self._close(log)
            raise
        return Both(log, cold)

    async def _open_late(self, partition: Partition) -> None:
        """One more try. From its success on it is a partition like any other."""
        topic, count = partition.topic, len(partition.topic.partitions)
        async with self._opening:
            both = await self._open_both(
                topic, partition.index, count=count, leader_epoch=partition.leader_epoch
            )
        partition.log, partition.cold, partition.late = both.log, both.cold, None
        partition.log.apply(self._log_settings(topic))  # They may have changed meanwhile.
        self.topics.generation += 1
        if self.tiering is not None:
            self.tiering.reconfigure(topic)

    def _remove(self, topic: Topic) -> None:
        """From now on nobody finds it; its files go, then the note that they must."""
        self.topics.remove(topic)
        self.partition_count -= len(topic.partitions)
        self._deletions.begin(topic)

    async def deleted(self) -> None:
        """Returns once the logs of all deleted topics are gone."""
        await self._deletions.done()

    # Ending

    async def close(self) -> None:
        """Close every log cleanly, side by side: each that was written to costs a few syncs."""
        late, self._late_tasks = self._late_tasks, set()
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        await self._lates.close()
        await self._deletions.close()
        logs = [one.log for topic in self.topics for one in topic.opened]
        logs += (one.log for one in self._opened.values() if one.late is None)
        for first in range(0, len(logs), OPENING_GROUP):
            await asyncio.gather(*map(self._close, logs[first : first + OPENING_GROUP]))

    @staticmethod
    async def _close(log: Log) -> None:
        try:
            await log.close()
        except LogError as error:
            # The next start reads its tail again; the others need not pay for that.
            logger.warning("%s: %s", log.path, error)
