"""Restore: a data directory made from the bucket alone, and the old cluster fenced off from it.

In this order, each step fit to be repeated after a crash:
1. The plan is written into the directory, which must be empty (`restoreplan`).
2. STATE gets the new life of the cluster: older nodes create and delete nothing any more.
3. EVERY HEAD is claimed in the name of the new life, and walked: older nodes publish nothing any
   more, and what is wrong with a manifest is known. A partition that never published gets its first
   HEAD here, for the same reason.
4. Logs are begun where HEAD ends, with the producers and leader epochs of the last segment.
5. The offsets of groups are put where the node will find them, clamped to what came back. They
   were claimed like the HEADs, right after STATE (`offsetskeeper`).
6. The metastore is filled. STATE is read once more: if another restore came first, this one has
   failed. Then the plan is removed.

STATE is not believed blindly: what is below `t/` is looked at as well (`survey`). A topic that has
data and that STATE does not know is taken in, with what its manifests say of it; so are partitions
beyond those that STATE knows, and lives of the cluster. Where STATE is gone or cannot be read it is
made again from there; it is put where there is none, or in the place of the very bytes that could
not be read.

What the old cluster acknowledged and had not published is not in the bucket. Until its next publish
an old node that still runs goes on to acknowledge: stop it first. Producer ids carry the new life's
number, so none is ever given out twice.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tierlog.cold.agreed import read_agreed
from tierlog.cold.clusterstate import decode_format, decode_state
from tierlog.cold.errors import ColdCorrupt, NewerFormat
from tierlog.cold.head import Incarnation
from tierlog.cold.layout import FORMAT_JSON, STATE, PartitionKeys, cluster_prefix
from tierlog.cold.listing import folders
from tierlog.cold.localcopy import LocalCopies
from tierlog.cold.offsetskeeper import OffsetsKeeper
from tierlog.cold.publisher import Place
from tierlog.cold.refusals import ClusterUnknown, StateLost
from tierlog.cold.regrouping import regroup
from tierlog.cold.report import Report, TakenIn
from tierlog.cold.restoreplan import Plan, has_content, read_plan, remove_plan, write_plan
from tierlog.cold.restoring import PartitionRestore
from tierlog.cold.statekeeper import StateKeeper
from tierlog.cold.survey import apart, grown, rebuilt, survey, unlisted
from tierlog.config import InvalidConfig, NodeSettings, topic_config
from tierlog.config.directories import COLD, LOGS, META
from tierlog.errors import TierlogError
from tierlog.hot import LogDirectory
from tierlog.metastore import LocalMetaStore, Put, values
from tierlog.objectstore.errors import NoSuchObject
from tierlog.types import LeaderEpoch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from tierlog.cold.clusteroffsets import Groups
    from tierlog.cold.clusterstate import ClusterState, TopicRecord
    from tierlog.cold.report import PartitionReport
    from tierlog.cold.survey import Survey
    from tierlog.env import Env
    from tierlog.metastore.port import Change
    from tierlog.objectstore.port import ObjectStore

T = TypeVar("T")

PlaceOffsets: TypeAlias = "Callable[[LogDirectory, ClusterState, Groups], Awaitable[None]]"
"""Puts the offsets of groups where a node looks for them; durable when it returns, and fit to be
repeated. Raises `CannotPlace`."""

PARTITIONS_AT_ONCE = 16
CHANGES_MAX = 1000
"""Of one transaction of the metastore."""


async def restore(
    env: Env,
    store: ObjectStore,
    data: str,
    *,
    cluster_id: str | None = None,
    node_id: int = 1,
    prefix: str = "",
    place_offsets: PlaceOffsets | None = None,
) -> Report:
    """Prepare the directory `data` for a node of this id. Repeat it after any error. Without
    `place_offsets` groups begin anew.

    Raises `ClusterUnknown` if the bucket holds no such cluster, or several and none was named, or
    the directory is in use; `ForeignIncarnation` if somebody else restored the cluster meanwhile.
    """
    plan, found = await _plan(env, store, data, cluster_id=cluster_id, prefix=prefix)
    directory = LogDirectory(env, f"{data}/{LOGS}")
    try:
        metastore = await LocalMetaStore.open(env, f"{data}/{META}")
        try:
            restoring = _Restore(env, store, data, plan, found, prefix=prefix, node_id=node_id)
            report = await restoring.run(directory, metastore, place_offsets)
        finally:
            await metastore.close()
    finally:
        directory.close()
    if report.is_complete:
        await env.tasks.in_thread(remove_plan, env.disk, data)
    return report


async def find_clusters(store: ObjectStore, *, prefix: str = "") -> list[str]:
    """The ids of the clusters in the bucket: two requests each, whatever they hold."""
    root = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    return [
        name
        async for name in folders(store, root)
        if await _exists(store, f"{root}{name}/{FORMAT_JSON}")
    ]


async def _exists(store: ObjectStore, key: str) -> bool:
    try:
        await store.head(key)
    except NoSuchObject:
        return False
    return True


# The plan


async def _plan(
    env: Env, store: ObjectStore, data: str, *, cluster_id: str | None, prefix: str
) -> tuple[Plan, Survey]:
    known = await env.tasks.in_thread(read_plan, env.disk, data)
    if known is not None:
        if cluster_id not in (None, known.cluster_id):
            raise ClusterUnknown(
                f"a restore of cluster {known.cluster_id} into {data} was begun and has not ended, "
                f"{cluster_id} is asked for: name an empty directory"
            )
        root = cluster_prefix(prefix, known.cluster_id)
        return known, await survey(store, root, env.tasks)
    if env.disk.exists(data) and has_content(env.disk, data):
        raise ClusterUnknown(f"{data} is not empty: a restore takes a directory of its own")
    plan, found = await _new_plan(
        env, store, cluster_id or await only_cluster(store, prefix=prefix), prefix
    )
    await env.tasks.in_thread(write_plan, env.disk, data, plan)
    return plan, found


async def only_cluster(store: ObjectStore, *, prefix: str = "") -> str:
    """The id of the one cluster in the bucket. Raises `ClusterUnknown`."""
    found = await find_clusters(store, prefix=prefix)
    if len(found) == 1:
        return found[0]
    if not found:
        raise ClusterUnknown("there is no cluster in this store")
    raise ClusterUnknown(
        f"there are several clusters in this store, name one with --cluster-id: {', '.join(found)}"
    )


async def _new_plan(
    env: Env, store: ObjectStore, cluster_id: str, prefix: str
) -> tuple[Plan, Survey]:
    root = cluster_prefix(prefix, cluster_id)
    try:
        decode_format((await store.get(root + FORMAT_JSON)).data)  # Refuses a newer one.
    except NoSuchObject:
        raise ClusterUnknown(f"the store has no {STATE} of a cluster {cluster_id}") from None
    lives: list[Incarnation] = []
    why = "there is none"
    try:
        state = await read_agreed(
            store, root + STATE, lambda got: decode_state(got.data), env.tasks
        )
        lives.append(state.incarnation)
    except NoSuchObject:
        pass
    except ColdCorrupt as fault:
        why = fault.reason
    found = await survey(store, root, env.tasks)
    if found.latest is not None:
        lives.append(found.latest)
    if not lives:
        raise ClusterUnknown(
            f"the store has no {STATE} of a cluster {cluster_id} that can be used ({why}), and no "
            "manifest that could stand in for it: put a version of it back"
        )
    # STATE may have been rolled back over a restore: no life's number may come again.
    after = max(lives, key=lambda one: one.number)
    plan = Plan(
        cluster_id=cluster_id,
        after=after,
        incarnation=Incarnation(after.number + 1, str(env.rng.uuid())),
        process=str(env.rng.uuid()),
    )
    return plan, found


class CannotPlace(TierlogError):
    """The offsets of groups have no place in what was restored; the sentence says why."""


class _Restore:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        data: str,
        plan: Plan,
        found: Survey,
        *,
        prefix: str,
        node_id: int,
    ) -> None:
        self._found = found
        self._problems: list[str] = []
        self._taken_in: tuple[TakenIn, ...] = ()
        self._env = env
        self._store = store
        self._plan = plan
        self._node_id = node_id
        self._prefix = cluster_prefix(prefix, plan.cluster_id)
        self._copies = LocalCopies(env, f"{data}/{COLD}")
        self._turns = asyncio.Semaphore(PARTITIONS_AT_ONCE)

    async def run(
        self,
        directory: LogDirectory,
        metastore: LocalMetaStore,
        place_offsets: PlaceOffsets | None,
    ) -> Report:
        plan = self._plan
        keeper = StateKeeper(
            self._store,
            self._prefix,
            self._env,
            cluster_id=plan.cluster_id,
            incarnation=plan.incarnation,
            copies=self._copies,
        )
        await self._copies.open()
        state = await self._take_in(keeper, await self._begin_life(keeper))
        groups = await self._claim_offsets()
        done = await self._partitions(state, directory)
        regrouped = regroup(groups, done)
        report = Report(
            cluster_id=plan.cluster_id,
            after=plan.after,
            incarnation=plan.incarnation,
            partitions=tuple(done),
            deleted=tuple(sorted(one.name for one in state.deleted.values())),
            groups=regrouped.reports,
            problems=tuple(self._problems),
            taken_in=self._taken_in,
        )
        if report.is_complete:
            if place_offsets is not None and regrouped.groups:
                try:
                    await place_offsets(directory, state, regrouped.groups)
                except CannotPlace as fault:
                    problems = (*report.problems, str(fault))
                    report = replace(report, groups=(), problems=problems)
            await self._fill(metastore, state, report)
        await keeper.refresh()  # Another restore may have come first: this one must not say ready.
        return report

    async def _begin_life(self, keeper: StateKeeper) -> ClusterState:
        plan = self._plan
        lives = [one for one in self._found.lives if one != plan.incarnation]
        try:
            return await keeper.begin_life(after=plan.after, lives=lives)
        except StateLost:
            state = await rebuilt(self._store, self._prefix, plan.cluster_id, self._found)
            if state is None or state.incarnation.number >= plan.incarnation.number:
                raise
        self._problems.append(
            f"{STATE} is gone, or cannot be read: made again from what the manifests say. Topics "
            "that are not tiered, or have published nothing, do not come back; one whose deletion "
            "was under way does"
        )
        self._note(state.topics)
        return await keeper.begin_life(after=plan.after, lives=lives, otherwise=state)

    async def _take_in(self, keeper: StateKeeper, state: ClusterState) -> ClusterState:
        """What has data and does not stand in STATE, before anything of it is claimed."""
        names = [one.name for one in state.topics.values()]
        new = apart(await unlisted(self._store, self._prefix, state, self._found), names)
        more = grown(state, self._found)
        self._note(new)
        for topic_id, topic in more.items():
            before = state.topics[topic_id].partitions
            self._problems.append(
                f"{STATE} knew {before} of the {topic.partitions} partitions that {topic.name} has"
            )
        return await keeper.put_topics({**new, **more}) if new or more else state

    def _note(self, topics: Mapping[str, TopicRecord]) -> None:
        new = [
            TakenIn(
                topic=one.name, topic_id=topic_id, partitions=one.partitions, configs=one.configs
            )
            for topic_id, one in topics.items()
        ]
        self._taken_in += tuple(new)
        self._problems += (one.sentence for one in new)

    async def _claim_offsets(self) -> Groups:
        plan = self._plan
        keeper = OffsetsKeeper(
            self._store,
            self._prefix,
            self._env,
            cluster_id=plan.cluster_id,
            incarnation=plan.incarnation,
            process=plan.process,
        )
        try:
            return (await keeper.claim()).groups
        except (ColdCorrupt, NewerFormat) as fault:
            # Records are worth more than places in them: groups begin anew, and that is said.
            self._problems.append(f"the offsets of groups do not come back: {fault}")
            return {}

    async def _partitions(
        self, state: ClusterState, directory: LogDirectory
    ) -> list[PartitionReport]:
        parts = [
            self._partition(state, topic_id, index)
            for topic_id, topic in sorted(
                state.topics.items(), key=lambda row: (row[1].name, row[0])
            )
            for index in range(topic.partitions)
        ]
        epochs = await asyncio.gather(*(self._in_turn(part.peek()) for part in parts))
        # One for all: a partition that never published had the epochs of the others, and clients
        # that remember a later one than they are told would not believe it.
        epoch = LeaderEpoch(max(epochs, default=0))
        work = (part.run(directory, epoch=epoch) for part in parts)
        return await asyncio.gather(*(self._in_turn(one) for one in work))

    async def _in_turn(self, work: Coroutine[Any, Any, T]) -> T:
        async with self._turns:
            return await work

    def _partition(self, state: ClusterState, topic_id: str, index: int) -> PartitionRestore:
        topic = state.topics[topic_id]
        place = Place(
            topic=topic.name, topic_id=topic_id, partition=index, partition_count=topic.partitions
        )
        return PartitionRestore(
            self._env,
            self._store,
            PartitionKeys(self._prefix, topic_id, index),
            place=place,
            plan=self._plan,
            ancestors=state.ancestors,
            copies=self._copies,
            is_tiered=_is_tiered(topic),
        )

    async def _fill(self, metastore: LocalMetaStore, state: ClusterState, report: Report) -> None:
        plan = self._plan
        changes: list[Change] = []
        for topic_id, topic in state.topics.items():
            value = values.TopicState(name=topic.name, configs=topic.configs)
            changes.append(Put(values.topic_key(bytes.fromhex(topic_id)), value.to_bytes()))
            changes.append(Put(values.name_key(topic.name), topic_id.encode()))
        changes += [self._partition_put(one) for one in report.partitions]
        ids = values.ProducerIdsState(incarnation=plan.incarnation.number)
        changes.append(Put(values.PRODUCER_IDS, ids.to_bytes()))
        cluster = values.ClusterState(
            id=plan.cluster_id,
            incarnation=plan.incarnation.number,
            incarnation_id=plan.incarnation.id,
            in_store=True,
        )
        changes.append(Put(values.CLUSTER, cluster.to_bytes()))
        for first in range(0, len(changes), CHANGES_MAX):
            await metastore.txn([], changes[first : first + CHANGES_MAX])

    def _partition_put(self, done: PartitionReport) -> Put:
        alone = (self._node_id,)
        value = values.PartitionState(
            replicas=alone, isr=alone, leader=self._node_id, leader_epoch=done.leader_epoch
        )
        key = values.partition_key(bytes.fromhex(done.topic_id), done.partition)
        return Put(key, value.to_bytes())


def _is_tiered(topic: TopicRecord) -> bool:
    try:
        return topic_config(topic.configs, NodeSettings()).remote_storage_enable
    except InvalidConfig:
        return True  # A newer node's words. If there is no HEAD, this is said as well.
