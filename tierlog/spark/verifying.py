"""`tierlog spark verify`: every byte of history against what was published, in parallel.

The driver walks the manifests: pages, chain, contiguity, and what the store lists. Tasks read the
objects whole: the very audit of `tierlog verify --deep` for segments, and for Parquet files size,
SHA-256 and the number of rows. Nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from tierlog.cold.audit import Finding, Kind, Subject
from tierlog.cold.audit_object import ObjectAudit
from tierlog.cold.audit_partition import ask
from tierlog.cold.bucketview import BucketView, Place
from tierlog.cold.walk import Walk
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import Span
from tierlog.spark.errors import NotReadable
from tierlog.spark.running import run_tasks
from tierlog.spark.stores import StorePlace, with_store
from tierlog.table.reading import open_table
from tierlog.types import Offset, Position

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from tierlog.cold.entry import Entry
    from tierlog.spark.running import Watcher
    from tierlog.spark.stores import Opened
    from tierlog.table.manifest import TableFile

PIECE_BYTES = 8 << 20


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
    key: str
    subject: Subject
    file: TableFile

    @property
    def size(self) -> int:
        return self.file.size


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
        spark, tasks, partial(check, place), size_of=lambda one: one.size, watcher=watcher
    )
    return VerifyReport(
        partitions=partitions,
        segments=sum(isinstance(one, SegmentTask) for one in tasks),
        files=sum(isinstance(one, FileTask) for one in tasks),
        bytes=sum(one.size for one in tasks),
        findings=(*findings, *(one for one in found if one is not None)),
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
            FileTask(key=place.keys.full(file.key), subject=subject, file=file)
            for file in await table.all_files()
        )
    return tasks, list(walk.findings)


# On executors


def check(place: StorePlace, one: Task) -> Finding | None:
    if isinstance(one, SegmentTask):
        return with_store(place, partial(_segment, one))
    return with_store(place, partial(_file, one))


async def _segment(one: SegmentTask, bucket: Opened) -> Finding | None:
    fault = await ask(bucket.store, one.key, one.entry)
    if fault is None:
        audit = ObjectAudit(bucket.store, one.key, one.entry, one.subject, bucket.env.tasks)
        fault = await audit.run()
    if fault is None:
        return None
    return _finding(
        one, fault.kind, fault.expected, fault.found, one.entry.base, one.entry.next_offset
    )


async def _file(one: FileTask, bucket: Opened) -> Finding | None:
    start, end = one.file.start, one.file.end
    try:
        stat = await bucket.store.head(one.key)
    except NoSuchObject:
        due = f"{one.file.size} bytes"
        return _finding(one, Kind.OBJECT_MISSING, due, "there is none", start, end)
    digest = sha256()
    for at in range(0, stat.size, PIECE_BYTES):
        span = Span(Position(at), Position(min(at + PIECE_BYTES, stat.size)))
        digest.update((await bucket.store.get(one.key, span=span)).data)
    if stat.size == one.file.size and digest.hexdigest() == one.file.sha256:
        return None
    due = f"{one.file.size} bytes, SHA-256 {one.file.sha256}"
    found = f"{stat.size} bytes, SHA-256 {digest.hexdigest()}"
    return _finding(one, Kind.OBJECT_WRONG, due, found, start, end)


def _finding(
    one: Task, kind: Kind, expected: str, found: str, start: Offset, end: Offset
) -> Finding:
    return Finding(
        kind=kind,
        key=one.key,
        expected=expected,
        found=found,
        topic=one.subject.topic,
        partition=one.subject.partition,
        start=start,
        end=end,
    )
