"""The cold tier of a node: every tiered partition, one store, one pace.

A loop looks at the partitions now and then: it seals what has waited for too long, and lets those
with something to upload or to drop do so, a few at a time. Nobody waits for it: produce and consume
go on whatever the store does, and the local disk is the buffer.

- Before anything else the store is probed (U11). One that lies is refused, for good. One that does
  not answer is waited for, with growing pauses; nothing is uploaded or dropped meanwhile.
- A topic stands in `cluster/STATE` before its first publish (`membership`).
- A partition that fails is tried again after a pause of its own, and its status says why; one that
  was fenced is not. A bucket that belongs to another life of the cluster ends all of it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tierlog.cold.changes import MoveLogStart
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.head import Head, Incarnation, Policy
from tierlog.cold.layout import cluster_prefix
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.membership import Hook, Membership, Probe
from tierlog.cold.nodechores import NodeChores
from tierlog.cold.offsetskeeper import OffsetsKeeper
from tierlog.cold.orphanfinder import OrphanFinder
from tierlog.cold.pace import Pace
from tierlog.cold.partitionmaker import PartitionMaker
from tierlog.cold.prefix import ColdPrefix
from tierlog.cold.publisher import Change
from tierlog.cold.refusals import Fenced, ForeignIncarnation, StateLost, TopicDeleted
from tierlog.cold.sweeper import Sweeper
from tierlog.cold.tieredpartition import STORE_AWAY, TieredPartition
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.cold.tierstats import TierStats
from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.hot import Log
from tierlog.objectstore.answering import Answering
from tierlog.objectstore.errors import StoreDenied, StoreLies
from tierlog.objectstore.port import ObjectStore
from tierlog.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from tierlog.cold.chores import NodeChore

logger = logging.getLogger(__name__)

FAILURES_BEFORE_PROBE = 3
"""Store failures in a row after which it counts as away, and is probed before it is trusted."""

START_SECONDS = 5.0
"""How long a start waits to hear whether the store lies: serving must not depend on an answer."""

PARTITIONS_A_TURN = 200
"""Looked at before everybody else has a turn: some 5 ms where all have much to do."""

STUMBLED_S = 10.0
"""After something that nobody foresaw, before the next turn."""

PolicyOf: TypeAlias = Callable[[str], Awaitable[Policy | None]]

POLICIES_AT_ONCE = 16
"""HEADs that are told of a topic's new policy side by side; somebody waits for it."""

FAILING_PARTITIONS = 3
"""Partitions that fail without a success in between, after which it is the store's fault."""


class ColdTier:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        settings: TierSettings,
        *,
        data: str,
        cluster_id: str,
        node_id: int,
        process: str,
        incarnation: Incarnation,
        probe: Probe | None = None,
        is_founded: bool = False,
        on_founding: Hook | None = None,
        on_founded: Hook | None = None,
        on_refused: Callable[[TierlogError], None] = lambda _: None,
        policy_of: PolicyOf | None = None,
    ) -> None:
        """`data` is the node's directory, `process` random for each start of it. A cluster that
        `is_founded` is not founded again; `on_founding` may refuse that it is, `on_founded` hears
        that it was, before anything is uploaded. `on_refused` hears
        once that nothing will be uploaded or dropped any more: by `StoreLies`, or by
        `ForeignIncarnation`, and then the node must stop taking records. `policy_of` reads a
        topic's policy where it is decided, before objects are deleted by it; None: it is gone."""
        self.stats = TierStats()
        self.partitions: dict[tuple[str, int], TieredPartition] = {}
        self.chores: list[NodeChore] = []
        self.refusal: TierlogError | None = None
        """Why nothing is uploaded or dropped any more, until a restart."""
        self.last_error: str | None = None
        """Of the store as such; None while it answers."""
        self.is_ready = False
        """Whether the store passed its probe and answers."""
        self.is_state_lost = False
        """Whether it answers, and has no STATE that could be used."""
        self._env = env
        self._settings = settings
        self._on_refused = on_refused
        self._policy_of = policy_of
        store = self._store = Answering(store)
        prefix = cluster_prefix(settings.prefix, cluster_id)
        self.membership = Membership(
            env,
            store,
            prefix,
            cluster_id=cluster_id,
            incarnation=incarnation,
            probe=probe,
            is_founded=is_founded,
            on_founding=on_founding,
            on_founded=on_founded,
            copies=LocalCopies(env, f"{data}/cold"),
        )
        self.offsets = OffsetsKeeper(
            store,
            prefix,
            env,
            cluster_id=cluster_id,
            incarnation=incarnation,
            process=process,
            check_life=self.membership.keeper.refresh,
        )
        """Of groups; whoever looks after these writes them, as a chore."""
        self.maker = PartitionMaker(
            env,
            store,
            settings,
            self.stats,
            prefix=prefix,
            data=data,
            node_id=node_id,
            process=process,
            incarnation=incarnation,
            is_idle=self._is_idle,
        )
        self._pace = Pace(
            env.clock, env.rng, ms_min=settings.backoff_ms_min, ms_max=settings.backoff_ms_max
        )
        self._failing: set[TieredPartition] = set()
        """Since something last went well."""
        self._looked_ms = 0
        self._slots = asyncio.Semaphore(settings.uploads_at_once)
        self._loop: asyncio.Task[None] | None = None
        self.sweeper = Sweeper(
            env,
            store,
            self.membership.keeper,
            settings,
            self.stats,
            prefix=prefix,
            node_id=node_id,
        )
        self.orphans = OrphanFinder(
            env,
            store,
            self.membership.keeper,
            settings,
            self.stats,
            self.partitions,
            prefix=prefix,
            data=data,
        )
        self.chores += (self.sweeper, self.orphans)
        self._node_chores = NodeChores(env, self.chores, settings, self.stats, self._guarded)
        self.maker.trouble = self._trouble
        self.maker.check_life = self.membership.keeper.refresh

    @property
    def is_draining(self) -> bool:
        """Whether what is sealed leaves the disk, as far as the store is concerned."""
        return self.is_ready and self.refusal is None

    def _trouble(self) -> str | None:
        """Why the store need not be asked, once it is known that it does not answer."""
        if self._loop is None or self.is_ready:
            return None
        return self.last_error or "the store has not answered yet"

    # Starting and stopping

    async def start(self) -> None:
        """Begin. Raises `StoreLies`, if that is known soon; a store that is away or slow is waited
        for in the background. A node of an older life may still be read."""
        await self.maker.open()
        prepared = self._env.tasks.spawn(self._prepare(), name="cold tier's probe")
        self._loop = self._env.tasks.spawn(self._run(prepared), name="cold tier")
        await asyncio.wait([prepared], timeout=START_SECONDS)
        if isinstance(self.refusal, StoreLies):
            raise self.refusal

    async def stop(self) -> None:
        """End what is under way; what was sent and not published is sent again by the next start.
        Neither seals nor uploads what is left."""
        tasks: list[asyncio.Task[Any]] = [*self._node_chores.tasks]
        tasks += (one.task for one in self.partitions.values() if one.task is not None)
        if self._loop is not None:
            tasks.append(self._loop)
        await _ended(tasks)

    @property
    def pace(self) -> Pace:
        """How long the store is left alone after it did not answer."""
        return self._pace

    # Partitions

    async def attach(
        self,
        topic_id: str,
        topic: TopicRecord,
        index: int,
        log: Log,
        *,
        leader_epoch: LeaderEpoch,
        tiering: TopicTiering,
    ) -> ColdPrefix:
        """Tier the partition from now on. Reads the local copy of its HEAD, asks no store."""
        assert (topic_id, index) not in self.partitions, "attached already"
        self.partitions[topic_id, index] = partition = await self.maker.make(
            topic_id, topic, index, log, leader_epoch=leader_epoch, tiering=tiering
        )
        policy_of = None if self._policy_of is None else partial(self._policy_of, topic_id)
        partition.keep_to_retention(self._settings, policy_of)
        self.membership.note(topic_id, topic)
        return partition.prefix

    def _is_idle(self) -> bool:
        """Whether nothing waits to be uploaded that can be: what is fenced or fails may never."""
        return not any(
            one.status.backlog_segments and not one.is_fenced and not one.pace.is_paused
            for one in self.partitions.values()
        )

    def reconfigure(self, topic_id: str, topic: TopicRecord, tiering: TopicTiering) -> None:
        """The topic was altered: it is written to STATE, and its partitions go by it."""
        self.membership.note(topic_id, topic)
        for (owner, _), partition in self.partitions.items():
            if owner == topic_id:
                partition.reconfigure(topic, tiering)

    async def detach(self, topic_id: str, index: int) -> None:
        """Let go of the partition, once what is under way has ended: its log may be closed."""
        partition = self.partitions.pop((topic_id, index), None)
        if partition is not None and partition.task is not None:
            await _ended([partition.task])
        if not any(owner == topic_id for owner, _ in self.partitions):
            self.membership.forget(topic_id)

    async def delete_topic(self, topic_id: str) -> None:
        """Its deletion stands in STATE when this returns. Raises what the store does: repeat it.

        Its partitions are detached before; its objects may go from now on.
        """
        assert all(owner != topic_id for owner, _ in self.partitions), "detach its partitions first"
        await self.membership.delete_topic(topic_id)

    async def move_log_start(self, topic_id: str, index: int, log_start: Offset) -> Head:
        """DeleteRecords below `uploaded_end`: done when it is in HEAD (U10)."""
        partition = self.partitions[topic_id, index]
        head = await partition.uploader.publisher.commit(
            MoveLogStart(log_start, now_ms=self._env.clock.now_ms())
        )
        partition.prefix.adopt(head)
        return head

    async def change_holds(self, topic_id: str, index: int, change: Change) -> Head:
        """Holds are placed or released when this returns: it is in HEAD (U7b)."""
        partition = self.partitions.get((topic_id, index))
        if partition is None:
            raise TopicDeleted(topic_id)
        await self.membership.require_saved(partition.place)
        return await partition.change_holds(change)

    def is_policy_told(self, topic_id: str) -> bool:
        """Whether every HEAD of the topic that this node knows names its policy."""
        return all(
            one.is_policy_told for (owner, _), one in self.partitions.items() if owner == topic_id
        )

    async def tell_policy(self, topic_id: str) -> None:
        """The topic's policy stands in every HEAD that it has when this returns (U7b). Raises what
        keeps it from there; nothing expires by another one meanwhile."""
        turns = asyncio.Semaphore(POLICIES_AT_ONCE)

        async def tell(partition: TieredPartition) -> None:
            async with turns:
                await partition.tell_policy()

        all_of_them = list(self.partitions.items())
        await asyncio.gather(*(tell(one) for (owner, _), one in all_of_them if owner == topic_id))

    # The loop

    async def _run(self, prepared: asyncio.Task[None]) -> None:
        """For ever. A bug of ours in one turn must not end the uploads of the node."""
        turn = self._first_turn(prepared)
        while True:
            pause_s = self._settings.check_interval_ms / 1000
            try:
                await turn
            except Exception:
                logger.exception("the cold tier stumbled")
                self.stats.failure_count += 1
                pause_s = STUMBLED_S
            await asyncio.sleep(pause_s)
            turn = self._turn()

    async def _first_turn(self, prepared: asyncio.Task[None]) -> None:
        await prepared
        await self._turn()

    async def _turn(self) -> None:
        """Once refused, it goes on looking: how much waits is worth knowing then."""
        if self.refusal is None and not self._pace.is_paused:
            await self._catch_up()
        await self._look()
        if self._is_open:
            self._node_chores.begin()

    @property
    def _is_open(self) -> bool:
        """Whether the store may be asked now."""
        return self.is_ready and not self._pace.is_paused and self.refusal is None

    async def _catch_up(self) -> None:
        if not self.is_ready:
            await self._prepare()
        if self.is_ready and self.membership.has_unsaved:
            await self._guarded(self.membership.save())
        if self.is_ready and self.membership.is_look_due:
            await self._guarded(self.membership.look())

    async def _look(self) -> None:
        """Seal what has waited for too long; let those work who have something to do."""
        now_ms = self._env.clock.now_ms()
        is_set_back = now_ms < self._looked_ms
        self._looked_ms, is_open = now_ms, self._is_open
        all_of_them = list(self.partitions.items())
        for first in range(0, len(all_of_them), PARTITIONS_A_TURN):
            for key, partition in all_of_them[first : first + PARTITIONS_A_TURN]:
                if is_set_back:
                    partition.clock_set_back()
                try:  # Here, not in a call: ten thousand partitions are looked at every second.
                    has_work = partition.look(now_ms)
                except Exception as fault:  # noqa: BLE001  it is told, and must not end the look
                    has_work = self._stumbled(partition, fault)
                if has_work and is_open:
                    self._begin(key, partition)
            await asyncio.sleep(0)

    def _stumbled(self, partition: TieredPartition, fault: Exception) -> bool:
        """A bug of ours: the others are looked at all the same."""
        if not partition.pace.is_paused:
            logger.error("%s cannot be looked at", partition.uploader.name, exc_info=fault)
            self._blame(fault, partition)
        return False

    def _begin(self, key: tuple[str, int], partition: TieredPartition) -> None:
        """Unless it is at work, or was detached while somebody else had a turn."""
        if partition.task is None and self.partitions.get(key) is partition:
            name = f"upload {partition.uploader.name}"
            partition.task = self._env.tasks.spawn(self._work(partition), name=name)

    async def _work(self, partition: TieredPartition) -> None:
        try:
            async with self._slots:
                if self.is_ready and not self._pace.is_paused:
                    await self._guarded(self._serve(partition), partition)
        finally:
            partition.task = None

    async def _serve(self, partition: TieredPartition) -> None:
        await self.membership.require_saved(partition.place)
        await partition.work()

    async def _guarded(
        self, work: Awaitable[None], partition: TieredPartition | None = None
    ) -> bool:
        """Do the work; note who failed, and who must wait for how long. Whether it went well."""
        answers = self._store.answer_count
        try:
            await work
        except STORE_AWAY as fault:
            self._store_failed(fault, partition)
        except StoreLies as lie:
            # One garbled answer is no proof: the probe's word is, and it has refused already.
            if self.refusal is None:
                self._store_failed(lie, partition)
                self.is_ready = False
        except ForeignIncarnation as why:
            self._refuse(why)
        except StateLost as lost:
            # Of all topics, whoever met it first: nothing is uploaded that a restore would miss.
            self.is_ready, self.is_state_lost = False, True
            self._blame(lost, None)
        except (TierlogError, OSError) as fault:
            self._blame(fault, partition)
        except Exception as fault:
            # A bug of ours: it is told, and must not end the uploads of all others.
            logger.exception("the cold tier stumbled")
            self._blame(fault, partition)
        else:
            if self._store.answer_count > answers:  # Work without the store says nothing of it.
                self._succeeded(partition)
            return True
        return False

    def _succeeded(self, partition: TieredPartition | None) -> None:
        if self.last_error is not None:
            logger.info("the object store answers again, uploads go on")
        self.last_error, self.is_state_lost = None, False
        self._failing.clear()
        self._pace.succeeded()
        if partition is not None:
            partition.succeeded()

    def _blame(self, fault: Exception, partition: TieredPartition | None) -> None:
        self.stats.failure_count += 1
        if partition is None:
            self.last_error = str(fault)
            self._pace.failed()
            logger.error("the cold tier waits: %s", fault)
            return
        partition.failed(fault, is_own=True)
        if partition.status.failure_count == 1 and not isinstance(fault, Fenced):
            place = partition.place
            logger.error("%s-%d waits: %s", place.topic, place.partition, fault)

    def _store_failed(self, fault: Exception, partition: TieredPartition | None) -> None:
        """One object that cannot be had is its partition's trouble; several are the store's."""
        self.stats.failure_count += 1
        if partition is not None:
            partition.failed(fault, is_own=True)
            self._failing.add(partition)
            if len(self._failing) < min(FAILING_PARTITIONS, len(self.partitions)):
                return
        if self._pace.failure_count == 0:
            is_denied = isinstance(fault, StoreDenied)
            what = "refuses this node, somebody must act" if is_denied else "does not answer"
            logger.warning("the object store %s; uploads wait: %s", what, fault)
        self._pace.failed()
        self.last_error, self.is_state_lost = str(fault), False
        if self._pace.failure_count >= FAILURES_BEFORE_PROBE:
            self.is_ready = False

    def _refuse(self, why: TierlogError) -> None:
        self.refusal = why
        self.is_ready = False
        self.last_error = str(why)
        logger.error("nothing is uploaded or dropped any more: %s", why)
        self._on_refused(why)

    # Before anything is uploaded

    async def _prepare(self) -> None:
        """A store that passes may still refuse what is sent: only what was done ends the pauses."""
        failures = self._pace.failure_count
        self.is_ready = await self._guarded(self._probe_and_join())
        if self.is_ready:
            self._pace.failure_count = failures

    async def _probe_and_join(self) -> None:
        if self.membership.is_founded:
            # A disk that is not mounted leaves an empty folder: nothing is written there, and a
            # probe during which the disk comes back would take its store for a liar.
            await self.membership.join()
        self.stats.probe_count += 1
        try:
            await self.membership.probe()
        except StoreLies as lie:
            self._refuse(lie)
            raise
        await self.membership.join()


async def _ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
