"""`tierlog spark verify`: every byte of history against what was published, in parallel.

The driver walks the manifests: pages, chain, contiguity, and what the store lists. Tasks read the
objects whole, by the very audits of `tierlog verify --deep`: that of segments, and for Parquet
files size, SHA-256 and the number of rows, for their dead letters size and SHA-256, each in the
version that TABLE names. Nothing is written.

Small objects share a task, and so a client of the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tierlog.cold.audit import Finding, Subject
from tierlog.cold.audit_object import ObjectAudit
from tierlog.cold.audit_partition import AuditSettings, ask
from tierlog.cold.bucketview import BucketView, Place
from tierlog.cold.walk import Walk
from tierlog.objectstore.errors import NoSuchObject
from tierlog.spark.errors import NotReadable
from tierlog.spark.running import grouped, run_tasks
from tierlog.spark.stores import StorePlace, with_store
from tierlog.table.audit import ObjectReader, TableObject, objects_of
from tierlog.table.reading import open_table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import SparkSession

    from tierlog.cold.entry import Entry
    from tierlog.cold.layout import PartitionKeys
    from tierlog.spark.running import Watcher
    from tierlog.spark.stores import Opened


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTask:
    key: str
    subject: Subject
    entry: Entry

    @property
    def size(self) -> int:
        return self.entry.size


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """A Parquet file, or its dead letters."""

    keys: PartitionKeys
    subject: Subject
    object: TableObject

    @property
    def size(self) -> int:
        return self.object.size


Task: TypeAlias = SegmentTask | FileTask


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    partitions: int
    segments: int
    files: int
    """Of Parquet."""
    bytes: int
    findings: tuple[Finding, ...]

    @property
    def is_sound(self) -> bool:
        return not self.findings


def verify(
    spark: SparkSession,
    place: StorePlace,
    *,
    topics: Collection[str] = (),
    cluster_id: str | None = None,
    watcher: Watcher | None = None,
) -> VerifyReport:
    """All topics, unless some are named."""
    partitions, tasks, findings = with_store(place, partial(_walked, cluster_id, topics))
    found = run_tasks(
        spark,
        grouped(tasks, size_of=lambda one: one.size),
        partial(check, place),
        size_of=lambda some: sum(one.size for one in some),
        watcher=watcher,
    )
    return VerifyReport(
        partitions=partitions,
        segments=sum(isinstance(one, SegmentTask) for one in tasks),
        files=sum(isinstance(one, FileTask) and not one.object.is_dead for one in tasks),
        bytes=sum(one.size for one in tasks),
        findings=(*findings, *(one for some in found for one in some)),
    )


# On the driver


async def _walked(
    cluster_id: str | None, topics: Collection[str], bucket: Opened
) -> tuple[int, list[Task], list[Finding]]:
    view = BucketView(bucket.store, cluster_id=cluster_id)
    places = await places_of(view, topics)
    tasks: list[Task] = []
    findings: list[Finding] = []
    for place in places:
        some, wrong = await _partition(bucket, view, place)
        tasks += some
        findings += wrong
    return len(places), tasks, findings


async def places_of(view: BucketView, topics: Collection[str]) -> list[Place]:
    clusters = await view.clusters()
    if len(clusters) != 1:
        raise NotReadable(f"the store holds {len(clusters)} clusters; name one by its id")
    state = await view.state(clusters[0])
    known = {topic.name: (topic_id, topic.partitions) for topic_id, topic in state.topics.items()}
    for name in topics:
        if name not in known:
            raise NotReadable(f"there is no topic {name} in the store")
    return [
        Place(cluster_id=clusters[0], topic_id=known[name][0], topic=name, partition=each)
        for name in sorted(topics or known)
        for each in range(known[name][1])
    ]


async def _partition(
    bucket: Opened, view: BucketView, place: Place
) -> tuple[list[Task], list[Finding]]:
    assert place.topic is not None
    assert place.topic_id is not None
    assert place.partition is not None
    subject = Subject(place.topic, place.topic_id, place.partition)
    try:
        await bucket.store.head(place.keys.head)
    except NoSuchObject:
        return [], []  # It never published.
    head = await view.head(place)
    walk = Walk(bucket.store, place.keys, head, tasks=bucket.env.tasks)
    tasks: list[Task] = [
        SegmentTask(key=place.keys.full(entry.key), subject=subject, entry=entry)
        async for entry in walk.entries()
    ]
    table = await open_table(bucket.store, place.keys)
    if table is not None:
        tasks += (
            FileTask(keys=place.keys, subject=subject, object=one)
            for file in await table.all_files()
            for one in objects_of(file)
        )
    return tasks, list(walk.findings)


# On executors


def check(place: StorePlace, some: Sequence[Task]) -> list[Finding]:
    """What is wrong with any of them; the store is opened once."""

    async def work(bucket: Opened) -> list[Finding]:
        found = [await _checked(one, bucket) for one in some]
        return [one for one in found if one is not None]

    return with_store(place, work)


async def _checked(one: Task, bucket: Opened) -> Finding | None:
    if isinstance(one, SegmentTask):
        return await _segment(one, bucket)
    settings = AuditSettings(is_deep=True)
    reader = ObjectReader(bucket.store, bucket.env.tasks, one.keys, one.subject, settings)
    return await reader.stat_and_read(one.object)


async def _segment(one: SegmentTask, bucket: Opened) -> Finding | None:
    fault = await ask(bucket.store, one.key, one.entry)
    if fault is None:
        audit = ObjectAudit(bucket.store, one.key, one.entry, one.subject, bucket.env.tasks)
        fault = await audit.run()
    if fault is None:
        return None
    return Finding(
        kind=fault.kind,
        key=one.key,
        expected=fault.expected,
        found=fault.found,
        topic=one.subject.topic,
        partition=one.subject.partition,
        start=one.entry.base,
        end=one.entry.next_offset,
    )
