"""Audits a cluster from its bucket alone: no broker is asked, and nothing is written.

`format.json`, `cluster/STATE`, then each partition of each topic (`audit_partition`). Topics whose
deletion is under way are left out: their objects go, in any order. What is found in a topic that is
deleted meanwhile is no finding either.

A STATE that is gone, cannot be read, or does not know a topic that has data is a finding; what it
should have told is then taken from HEADs (`survey`), so that the topics are looked at all the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tierlog.cold import canonical
from tierlog.cold.agreed import WRONG, read_agreed
from tierlog.cold.audit import AuditReport, Finding, Kind, PartitionAudit, Subject
from tierlog.cold.audit_partition import AuditSettings, PartitionCheck
from tierlog.cold.clusterstate import ClusterState, decode_format, decode_state, encode_format
from tierlog.cold.crew import Crew
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.layout import FORMAT_JSON, STATE, PartitionKeys, cluster_prefix
from tierlog.cold.refusals import ClusterUnknown
from tierlog.cold.survey import apart, grown, rebuilt, survey, unlisted
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.limited import Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tierlog.cold.audit import TableCheck
    from tierlog.cold.auditstate import AuditState
    from tierlog.cold.head import Incarnation
    from tierlog.cold.localcopy import LocalCopies
    from tierlog.env import Env
    from tierlog.objectstore.port import Got, ObjectStore

PARTITIONS_AT_ONCE = 8
PARTITIONS_AT_ONCE_DEEP = 1
"""Objects of one partition are read side by side: more at once would only take more memory."""


class Auditor:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        *,
        cluster_id: str,
        prefix: str = "",
        is_deep: bool = False,
        bytes_per_second: float | None = None,
        copies: LocalCopies | None = None,
        state: AuditState | None = None,
        tables: TableCheck | None = None,
        on_total: Callable[[int], None] = lambda _: None,
        on_bytes: Callable[[int], None] = lambda _: None,
        on_partition: Callable[[PartitionAudit], None] = lambda _: None,
    ) -> None:
        """`copies`: a node's own of each HEAD, to compare with. `tables` looks at the tables beside
        the segments; None: nobody does. `on_total` hears before a deep
        audit how many bytes there are, by what HEADs say; `on_bytes` of each object that is done,
        `on_partition` of each partition."""
        self._env = env
        self._store = store
        self._cluster_id = cluster_id
        self._prefix = cluster_prefix(prefix, cluster_id)
        self._meter = Meter(env.clock, bytes_per_second)
        self._copies = copies
        self._state = state
        self._tables = tables
        self._on_total = on_total
        self._on_partition = on_partition
        self._settings = AuditSettings(
            is_deep=is_deep, before_read=self._wait_for_rate, on_bytes=on_bytes
        )
        self._of_cluster: list[Finding] = []
        self._unlisted: frozenset[str] = frozenset()
        """Topics that STATE should know."""
        self._notes: list[str] = []
        self._partitions: dict[tuple[str, int], PartitionAudit] = {}

    async def run(self, topics: Collection[str] = ()) -> AuditReport:
        """All topics, or those of these names. Raises `ClusterUnknown` for one that is not there,
        and what the store raises: then nothing is known."""
        await self._check_format()
        known = None if self._copies is None else await self._copies.load_state(self._cluster_id)
        state = await self._read_state()
        if state is not None and known is not None and state.is_behind(known):
            expected = f"version {known.version}, of which this node has a copy"
            found = f"version {state.version}"
            self._add(Kind.STATE_OLDER, self._prefix + STATE, expected, found)
        if state is not None:
            state = state if topics else await self._completed(state)
            await self._check_topics(state, topics)
            await self._forgive_deleted()
        else:
            await self._check_without_state(topics)
        ordered = sorted(self._partitions.values(), key=lambda one: (one.topic, one.partition))
        return AuditReport(
            cluster_id=self._cluster_id,
            is_deep=self._settings.is_deep,
            partitions=tuple(ordered),
            of_cluster=tuple(self._of_cluster),
            notes=tuple(self._notes),
        )

    # The cluster

    async def _check_format(self) -> None:
        key = self._prefix + FORMAT_JSON
        try:
            await read_agreed(self._store, key, partial(_check_format, self._cluster_id))
        except NoSuchObject:
            self._add(Kind.FORMAT_WRONG, key, f"cluster {self._cluster_id}", "there is none")
        except ColdCorrupt as fault:
            self._add(Kind.FORMAT_WRONG, key, f"cluster {self._cluster_id}", fault.reason)

    async def _read_state(self) -> ClusterState | None:
        key = self._prefix + STATE
        try:
            state = await read_agreed(self._store, key, _opened_state, self._env.tasks)
        except NoSuchObject:
            self._add(Kind.STATE_WRONG, key, "the topics of the cluster", "there is none")
        except ColdCorrupt as fault:
            self._add(Kind.STATE_WRONG, key, "the topics of the cluster", fault.reason)
        else:
            if state.cluster_id == self._cluster_id:
                return state
            found = f"those of cluster {state.cluster_id}"
            self._add(Kind.STATE_WRONG, key, f"topics of {self._cluster_id}", found)
        return None

    def _add(self, kind: Kind, key: str, expected: str, found: str) -> None:
        self._of_cluster.append(Finding(kind=kind, key=key, expected=expected, found=found))

    # Topics

    async def _check_topics(self, state: ClusterState, names: Collection[str]) -> None:
        wanted = _chosen(state, names)
        subjects = [
            Subject(state.topics[topic_id].name, topic_id, index)
            for topic_id in wanted
            for index in range(state.topics[topic_id].partitions)
        ]
        if self._settings.is_deep:
            self._on_total(await self._total(subjects))
        at_once = PARTITIONS_AT_ONCE_DEEP if self._settings.is_deep else PARTITIONS_AT_ONCE
        lives = {life.incarnation for life in state.lineage}
        async with Crew(self._env.tasks, at_once, name="audit") as crew:
            for subject in subjects:
                await crew.give(self._check_partition(subject, lives))
        if not names:
            self._notes += (
                f"{one.name} is being deleted: not looked at" for one in state.deleted.values()
            )

    async def _check_without_state(self, names: Collection[str]) -> None:
        found = await survey(self._store, self._prefix, self._env.tasks)
        state = await rebuilt(self._store, self._prefix, self._cluster_id, found)
        if state is None:
            self._notes.append(
                f"without {STATE} and any HEAD no topic is known: none was looked at"
            )
            return
        self._notes.append(
            f"{STATE} cannot be used: the {len(state.topics)} topics of which manifests tell were "
            "looked at"
        )
        await self._check_topics(state, names)

    async def _check_partition(self, subject: Subject, lives: Collection[Incarnation]) -> None:
        known = None
        if self._copies is not None:
            known = await self._copies.load(subject.topic_id, subject.partition)
        keys = PartitionKeys(self._prefix, subject.topic_id, subject.partition)
        check = PartitionCheck(
            self._env,
            self._store,
            keys,
            subject,
            lives=lives,
            settings=self._settings,
            known=known,
            state=self._state,
        )
        audit = await self._with_table(await check.run(), keys, subject)
        self._partitions[subject.topic_id, subject.partition] = audit
        self._on_partition(audit)

    async def _with_table(
        self, audit: PartitionAudit, keys: PartitionKeys, subject: Subject
    ) -> PartitionAudit:
        if self._tables is None:
            return audit
        found = await self._tables.run(keys, subject, self._settings)
        return replace(
            audit,
            read_bytes=audit.read_bytes + found.read_bytes,
            table_files=found.files,
            table_bytes=found.bytes,
            findings=audit.findings + found.findings,
        )

    async def _total(self, subjects: Sequence[Subject]) -> int:
        sizes: list[int] = []

        async def look(subject: Subject) -> None:
            keys = PartitionKeys(self._prefix, subject.topic_id, subject.partition)
            settings = AuditSettings()
            if self._tables is not None:
                sizes.append(await self._tables.bytes(keys))
            check = PartitionCheck(
                self._env, self._store, keys, subject, lives=(), settings=settings
            )
            try:
                sizes.append((await check.read_head())[0].bytes)
            except (NoSuchObject, *WRONG):
                return

        async with Crew(self._env.tasks, PARTITIONS_AT_ONCE, name="audit") as crew:
            for subject in subjects:
                await crew.give(look(subject))
        return sum(sizes)

    async def _completed(self, state: ClusterState) -> ClusterState:
        """With the topics and partitions that have data, and that STATE does not know: it was put
        back, if it still does not."""
        found = await survey(self._store, self._prefix, self._env.tasks, spared=state.topics)
        new = await unlisted(self._store, self._prefix, state, found)
        if new or grown(state, found):
            now = await self._read_state()  # It may have been made meanwhile, or swept.
            if now is None:
                return state
            state, new = now, await unlisted(self._store, self._prefix, now, found)
        key, more = self._prefix + STATE, grown(state, found)
        for topic_id, topic in new.items():
            expected = f"topic {topic.name} ({topic_id}), which has data"
            self._add(Kind.STATE_OLDER, key, expected, "no such topic")
        for topic_id, topic in more.items():
            expected = f"{topic.partitions} partitions of {topic.name}, which have data"
            held = f"{state.topics[topic_id].partitions}"
            self._add(Kind.STATE_OLDER, key, expected, held)
        self._unlisted = frozenset(new)
        new = apart(new, [one.name for one in state.topics.values()])
        return replace(state, topics={**state.topics, **more, **new})

    async def _forgive_deleted(self) -> None:
        """What was deleted while we looked is no damage."""
        if not any(one.findings for one in self._partitions.values()):
            return
        state = await self._read_state()
        for place, one in self._partitions.items():
            is_gone = state is not None and place[0] not in {*state.topics, *self._unlisted}
            if is_gone and one.findings:
                note = "the topic was deleted meanwhile"
                self._partitions[place] = replace(one, findings=(), notes=(*one.notes, note))

    async def _wait_for_rate(self, size: int) -> None:
        if wait := self._meter.owe(size):
            await asyncio.sleep(wait)


def _check_format(cluster_id: str, got: Got) -> None:
    if (found := decode_format(got.data)) != cluster_id:
        raise ColdCorrupt(FORMAT_JSON, f"cluster {found}")
    if got.data != encode_format(cluster_id):
        raise ColdCorrupt(FORMAT_JSON, "other bytes than were written")


def _opened_state(got: Got) -> ClusterState:
    canonical.require_plain(got.data, key=STATE)
    return decode_state(got.data)


def _chosen(state: ClusterState, names: Collection[str]) -> list[str]:
    by_name = {topic.name: topic_id for topic_id, topic in state.topics.items()}
    for name in names:
        if name not in by_name:
            raise ClusterUnknown(f"there is no topic {name} in the store")
    chosen = names or by_name
    return [by_name[name] for name in sorted(set(chosen))]
