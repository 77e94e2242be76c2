"""`tierlog spark convert`: cold segments to Parquet, in parallel; for years of history at once.

The driver looks where each table ends and what HEAD lists behind it, and makes runs of neighbouring
segments. A task fetches a run, converts it by the table's own code and sends the file under a key
of its own, new for every attempt; it publishes nothing. The driver lists the files in order, wave
by wave, by the table's own publisher. What a task sent and nobody listed is an orphan, which nodes
collect.

Nodes may convert at the same time: a file that somebody else was quicker with is not listed, and
the rest of that partition is looked at again. So it is where a segment is not there: it may have
been merged into another one. One that a fresh HEAD still lists then becomes dead letters.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tierlog.cold.bucketview import BucketView, Place
from tierlog.objectstore.errors import NoSuchObject
from tierlog.spark.pins import entries_between
from tierlog.spark.running import run_tasks
from tierlog.spark.stores import StorePlace, with_store
from tierlog.spark.verifying import places_of
from tierlog.table import plans
from tierlog.table.changes import Append, NotNextFile
from tierlog.table.choosing import next_run
from tierlog.table.keys import file_key
from tierlog.table.manifest import MISSING, SCHEMA_VERSION, Source
from tierlog.table.plans import About, ConvertPlan, Range, RawPart
from tierlog.table.publisher import Place as TablePlace
from tierlog.table.publisher import TablePublisher
from tierlog.table.reading import read_table
from tierlog.table.settings import TableSettings
from tierlog.table.workshop import Workshop
from tierlog.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
    from tierlog.spark.running import Watcher
    from tierlog.spark.stores import Opened
    from tierlog.table.manifest import DeadLetters, TableFile
    from tierlog.table.plans import Made

JOB_NODE = 4_294_967_295
"""In keys, where a node has its number."""
LOSSES_MAX = 2
"""Times that a segment may be missing before it is given up."""
PASSES_MAX = 100
"""Over a bucket in which others convert as well: each pass finds less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertTask:
    """Neighbouring segments that make one file."""

    place: Place
    leader_epoch: int
    start: Offset
    entries: tuple[Entry, ...]
    missing: frozenset[str] = frozenset()
    """Keys of those that were looked for in vain."""

    @property
    def size(self) -> int:
        return sum(one.data_bytes for one in self.entries)

    @property
    def end(self) -> Offset:
        return self.entries[-1].next_offset


class Lost(NamedTuple):
    """In the place of a file: a segment was not there."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertReport:
    partitions: int = 0
    files: int = 0
    rows: int = 0
    dead_records: int = 0
    read_bytes: int = 0
    """Of batches."""
    written_bytes: int = 0
    """Of Parquet."""


def convert(
    spark: SparkSession,
    place: StorePlace,
    *,
    topics: Collection[str] = (),
    cluster_id: str | None = None,
    until: int | None = None,
    settings: TableSettings | None = None,
    watcher: Watcher | None = None,
) -> ConvertReport:
    """All topics, unless some are named, and of each all segments that end by `until`. Whether a
    topic has `tierlog.table.enable` does not matter: whoever calls this wants it."""
    losses: Counter[str] = Counter()
    look = partial(
        _planned,
        cluster_id,
        topics,
        until=until,
        settings=settings or TableSettings(),
        losses=losses,
    )
    done: list[TableFile] = []
    read_bytes, names = 0, set[tuple[str | None, int | None]]()
    for _ in range(PASSES_MAX):
        tasks = with_store(place, look)
        if not tasks:
            break
        total = read_bytes + sum(one.size for one in tasks)
        beaten: set[str] = set()
        for wave in _waves(tasks, 2 * spark.sparkContext.defaultParallelism):
            watch = None if watcher is None else partial(_shifted, watcher, read_bytes, total)
            made = run_tasks(
                spark, wave, partial(made_by, place), size_of=lambda one: one.size, watcher=watch
            )
            losses.update(one.key for one in made if isinstance(one, Lost))
            listed = partial(_listed, list(zip(wave, made, strict=True)), beaten=beaten)
            done += with_store(place, listed)
            read_bytes += sum(one.size for one in wave)
            names |= {(one.place.topic, one.place.partition) for one in wave}
    return ConvertReport(
        partitions=len(names),
        files=len(done),
        rows=sum(one.rows for one in done),
        dead_records=sum(one.dead_records for one in done),
        read_bytes=read_bytes,
        written_bytes=sum(one.size for one in done),
    )


def _shifted(watcher: Watcher, before: int, total: int, done: int, _: int) -> None:
    watcher(before + done, total)


def _waves(tasks: Sequence[ConvertTask], count: int) -> Iterator[list[ConvertTask]]:
    """Published one after the other, so that a job that dies leaves little undone. Files of one
    partition stay in their order."""
    for first in range(0, len(tasks), max(8, count)):
        yield list(tasks[first : first + max(8, count)])


# On the driver


async def _planned(
    cluster_id: str | None,
    topics: Collection[str],
    bucket: Opened,
    *,
    until: int | None,
    settings: TableSettings,
    losses: Mapping[str, int],
) -> list[ConvertTask]:
    view = BucketView(bucket.store, cluster_id=cluster_id)
    found: list[ConvertTask] = []
    for place in await places_of(view, topics):
        if await _is_there(bucket, place):
            head = await view.head(place)
            found += await _runs(bucket, view, place, head, until, settings, losses)
    return found


async def _is_there(bucket: Opened, place: Place) -> bool:
    try:
        await bucket.store.head(place.keys.head)
    except NoSuchObject:
        return False
    return True


async def _runs(
    bucket: Opened,
    view: BucketView,
    place: Place,
    head: Head,
    until: int | None,
    settings: TableSettings,
    losses: Mapping[str, int],
) -> list[ConvertTask]:
    table = await read_table(bucket.store, place.keys)
    start = head.log_start if table is None else max(head.log_start, table.converted_end)
    end = head.next_offset if until is None else min(head.next_offset, until)
    entries = [
        entry
        async for entry in entries_between(view, place, head, start, end)
        if entry.next_offset <= end
    ]
    found: list[ConvertTask] = []
    lost = frozenset(key for key, times in losses.items() if times >= LOSSES_MAX)
    while entries:
        run = next_run(entries, settings)
        found.append(
            ConvertTask(
                place=place,
                leader_epoch=head.writer.leader_epoch,
                start=Offset(max(start, run[0].base)),
                entries=run,
                missing=lost.intersection(one.key for one in run),
            )
        )
        entries = entries[len(run) :]
    return found


async def _listed(
    made: Sequence[tuple[ConvertTask, TableFile | Lost]], bucket: Opened, *, beaten: set[str]
) -> list[TableFile]:
    """Those that were published: in order, and none of a partition behind one that was not, in this
    wave or one before it (`beaten`): what lies between them would be skipped for good."""
    found: list[TableFile] = []
    publishers: dict[str, tuple[TablePublisher, Head]] = {}
    for task, file in made:
        key = task.place.keys.table
        if isinstance(file, Lost):
            beaten.add(key)
        if key in beaten or isinstance(file, Lost):
            continue
        if key not in publishers:
            publishers[key] = await _publisher(bucket, task.place)
        publisher, head = publishers[key]
        change = Append(
            file,
            publisher=publisher,
            store=bucket.store,
            env=bucket.env,
            head_version=head.version,
            grace_ms=TableSettings().garbage_grace_ms,
            schema=SCHEMA_VERSION,
        )
        try:
            await publisher.commit(change)
        except NotNextFile:
            beaten.add(key)
        else:
            found.append(file)
    return found


async def _publisher(bucket: Opened, place: Place) -> tuple[TablePublisher, Head]:
    """In the name of whoever leads: TABLE has no writer of its own."""
    head = await BucketView(bucket.store).head(place)
    publisher = TablePublisher(
        bucket.store,
        place.keys,
        bucket.env,
        place=TablePlace(topic=head.topic, topic_id=head.topic_id, partition=head.partition),
        writer=head.writer,
        incarnation=head.incarnation,
    )
    return publisher, head


# On executors


def made_by(place: StorePlace, task: ConvertTask) -> TableFile | Lost:
    with tempfile.TemporaryDirectory(prefix="tierlog-convert-") as folder:
        return with_store(place, partial(_made, task, folder))


async def _made(task: ConvertTask, folder: str, bucket: Opened) -> TableFile | Lost:
    workshop = Workshop(bucket.env, bucket.store, bucket.env.tasks, folder)
    parts, sources = [], []
    for number, entry in enumerate(task.entries):
        part = _part(task, entry, workshop.path(str(number)))
        if entry.key in task.missing:
            parts.append(replace(part, missing=f"it was not there {LOSSES_MAX} times"))
            sources.append(Source(entry.key, MISSING))
            continue
        key = task.place.keys.full(entry.key)
        try:
            fetched = await workshop.fetch(
                key, part.path, size=entry.size, version_id=entry.version_id
            )
        except NoSuchObject:
            return Lost(entry.key)
        parts.append(part)
        sources.append(Source(entry.key, fetched.sha256))
    assert task.place.topic is not None
    assert task.place.topic_id is not None
    assert task.place.partition is not None
    about = About(
        topic=task.place.topic,
        topic_id=task.place.topic_id,
        partition=task.place.partition,
        start=task.start,
        end=task.end,
        sources=tuple(sources),
    )
    out = workshop.path("out")
    plan = ConvertPlan(parts=tuple(parts), out=out, dead_out=workshop.path("dead"), about=about)
    made = await bucket.env.tasks.in_thread(plans.convert, bucket.env.disk, plan)
    file = await _file(task, about, made, workshop)
    version_id = await workshop.send(task.place.keys, file, out)
    return replace(file, version_id=version_id)


def _part(task: ConvertTask, entry: Entry, path: str) -> RawPart:
    assert task.place.topic is not None
    assert task.place.partition is not None
    wanted = Range(
        topic=task.place.topic,
        partition=task.place.partition,
        start=max(task.start, entry.base),
        end=entry.next_offset,
        base=entry.base,
        next_offset=entry.next_offset,
        samples=entry.samples,
        size=entry.data_bytes,
    )
    return RawPart(
        path=path, size=entry.data_bytes, source=entry.key, wanted=wanted, records=entry.records
    )


async def _file(task: ConvertTask, about: About, made: Made, workshop: Workshop) -> TableFile:
    dead: tuple[DeadLetters, ...] = ()
    if made.dead is not None:
        key, path = _new_key(task, workshop, is_dead=True), workshop.path("dead")
        dead = (await workshop.bury(task.place.keys, key, made.dead, path),)
    return made.as_listed(_new_key(task, workshop), about, dead)


def _new_key(task: ConvertTask, workshop: Workshop, *, is_dead: bool = False) -> str:
    return file_key(
        start=task.start,
        end=task.end,
        leader_epoch=LeaderEpoch(task.leader_epoch),
        node=JOB_NODE,
        attempt=int.from_bytes(workshop.env.rng.randbytes(8)),
        is_dead=is_dead,
    )
