"""`tierlog store ls`: clusters, topics, partitions, segments; a line each, as they are read.

Names come from `cluster/STATE`, segments from the manifest. `--keys` asks the store itself what it
holds instead: also what no manifest lists.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from tierlog.cli.formats import compact
from tierlog.cli.progress import show_bytes
from tierlog.cli.times import show_second
from tierlog.cold.bucketview import BucketView, NotThere, Place
from tierlog.cold.layout import TOPICS, cluster_prefix

if TYPE_CHECKING:
    from tierlog.cold.clusterstate import ClusterState
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head

HEADS_AT_ONCE = 16


class Enough(Exception):
    """As many lines as were asked for."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    width: int
    is_left: bool = False


@dataclass(slots=True, kw_only=True)
class Listing:
    long: bool = False
    keys: bool = False
    limit: int | None = None
    as_json: bool = False
    _count: int = 0

    async def run(self, view: BucketView, path: str) -> None:
        try:
            await self._run(view, path)
        except Enough:
            return

    async def _run(self, view: BucketView, path: str) -> None:
        place = await view.find(path)
        if self.keys or place.key is not None:
            await self._objects(view, place)
        elif place.cluster_id is None:
            await self._clusters(view)
        elif place.topic_id is None:
            await self._topics(view, place)
        elif place.partition is None:
            await self._partitions(view, place)
        else:
            await self._segments(view, place)

    # Levels

    async def _clusters(self, view: BucketView) -> None:
        columns = [Column("cluster", 36, is_left=True), Column("life", 4), Column("topics", 6)]
        self._title(columns)
        for cluster_id in await view.clusters():
            state = await view.state(cluster_id)
            value = {
                "cluster": cluster_id,
                "life": state.incarnation.number,
                "topics": len(state.topics),
            }
            self._line(columns, value, list(value.values()))

    async def _topics(self, view: BucketView, place: Place) -> None:
        assert place.cluster_id is not None
        state = await view.state(place.cluster_id)
        self._say(_about(state))
        width = max((len(one.name) for one in _all(state)), default=5)
        columns = [Column("topic", width, is_left=True), Column("partitions", 10)]
        if self.long:
            columns += [Column("records", 13), Column("segments", 8), Column("size", 8)]
        columns.append(Column("id", 32, is_left=True))
        self._title(columns)
        for topic_id, topic in sorted(state.topics.items(), key=lambda pair: pair[1].name):
            about = Place(cluster_id=place.cluster_id, topic_id=topic_id, topic=topic.name)
            value = {"topic": topic.name, "partitions": topic.partitions}
            cells: list[object] = [topic.name, topic.partitions]
            if self.long:
                sums = await self._sums(view, about, topic.partitions)
                value |= sums
                cells += [sums["records"], sums["segments"], show_bytes(sums["bytes"])]
            self._line(columns, {**value, "id": topic_id}, [*cells, topic_id])
        for topic_id, gone in sorted(state.deleted.items(), key=lambda pair: pair[1].name):
            when = show_second(gone.deleted_ms)
            value = {"topic": gone.name, "partitions": gone.partitions}
            value |= {"id": topic_id, "deleted_ms": gone.deleted_ms}
            blanks = [""] * (len(columns) - 3)
            self._line(columns, value, [gone.name, gone.partitions, *blanks, f"deleted {when}"])

    async def _sums(self, view: BucketView, topic: Place, count: int) -> dict[str, int]:
        sums = {"records": 0, "segments": 0, "bytes": 0}
        async for _, head in _heads(view, topic, count):
            if head is not None:
                sums["records"] += head.records
                sums["segments"] += _segments(head)
                sums["bytes"] += head.bytes
        return sums

    async def _partitions(self, view: BucketView, place: Place) -> None:
        assert place.cluster_id is not None
        count = await _partition_count(view, place)
        columns = [Column("partition", 9), Column("start", 13), Column("end", 13)]
        columns += [Column("segments", 8), Column("size", 8), Column("published", 19, is_left=True)]
        self._title(columns)
        async for index, head in _heads(view, place, count):
            if head is None:
                value = {"partition": index, "published_ms": -1}
                self._line(columns, value, [index, "", "", "", "", "never"])
                continue
            value = {
                "partition": index,
                "log_start": head.log_start,
                "next_offset": head.next_offset,
                "records": head.records,
                "segments": _segments(head),
                "bytes": head.bytes,
                "published_ms": head.published_ms,
            }
            cells = [index, head.log_start, head.next_offset, _segments(head)]
            published = show_second(head.published_ms)
            self._line(columns, value, [*cells, show_bytes(head.bytes), published])

    async def _segments(self, view: BucketView, place: Place) -> None:
        head = await view.head(place)
        width = max(len(f"{head.next_offset:,}"), 5)
        columns = [Column("first", width), Column("last", width), Column("records", 9)]
        columns += [Column("size", 8), Column("oldest", 19), Column("newest", 19)]
        self._title(columns)
        async for entry in view.entries(place, head):
            cells = [entry.base, entry.last, entry.records, show_bytes(entry.size)]
            cells += [_time(entry.min_timestamp), _time(entry.max_timestamp)]
            self._line(columns, _value(entry, place), cells)

    async def _objects(self, view: BucketView, place: Place) -> None:
        columns = [Column("size", 8), Column("modified", 19), Column("key", 0, is_left=True)]
        self._title(columns)
        async for page in view.store.list(_prefix(place)):
            for stat in page:
                value = {"key": stat.key, "bytes": stat.size, "modified_ms": stat.modified_ms}
                modified = _time(stat.modified_ms)
                self._line(columns, value, [show_bytes(stat.size), modified, stat.key])

    # Lines

    def _say(self, text: str) -> None:
        if not self.as_json:
            typer.echo(text)

    def _title(self, columns: Sequence[Column]) -> None:
        if not self.as_json:
            typer.echo(_laid_out(columns, [one.name for one in columns]))

    def _line(self, columns: Sequence[Column], value: dict[str, Any], cells: Sequence[Any]) -> None:
        if self.limit is not None and self._count >= self.limit:
            raise Enough
        self._count += 1
        if self.as_json:
            typer.echo(compact(value))
        else:
            typer.echo(_laid_out(columns, cells))


def _laid_out(columns: Sequence[Column], cells: Sequence[object]) -> str:
    texts = [f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells]
    laid = (
        text.ljust(column.width) if column.is_left else text.rjust(column.width)
        for column, text in zip(columns, texts, strict=True)
    )
    return "  ".join(laid).rstrip()


def _about(state: "ClusterState") -> str:
    topics = len(state.topics)
    what = "1 topic" if topics == 1 else f"{topics:,} topics"
    return f"cluster {state.cluster_id}, life {state.incarnation.number}: {what}"


def _all(state: "ClusterState") -> list[Any]:
    return [*state.topics.values(), *state.deleted.values()]


async def _partition_count(view: BucketView, place: Place) -> int:
    assert place.cluster_id is not None
    assert place.topic_id is not None
    state = await view.state(place.cluster_id)
    topic = state.topics.get(place.topic_id) or state.deleted[place.topic_id]
    return topic.partitions


async def _heads(
    view: BucketView, topic: Place, count: int
) -> AsyncIterator[tuple[int, "Head | None"]]:
    """Of every partition, in order; None where nothing was published."""

    async def read(index: int) -> "Head | None":
        place = Place(
            cluster_id=topic.cluster_id, topic_id=topic.topic_id, topic=topic.topic, partition=index
        )
        try:
            return await view.head(place)
        except NotThere:
            return None

    for first in range(0, count, HEADS_AT_ONCE):
        some = range(first, min(first + HEADS_AT_ONCE, count))
        for index, head in zip(some, await asyncio.gather(*map(read, some)), strict=True):
            yield index, head


def _segments(head: "Head") -> int:
    return len(head.entries) + sum(one.segments for one in (*head.leaves, *head.indexes))


def _value(entry: "Entry", place: Place) -> dict[str, Any]:
    return {
        "base": entry.base,
        "last": entry.last,
        "records": entry.records,
        "batches": entry.batches,
        "bytes": entry.size,
        "min_timestamp": entry.min_timestamp,
        "max_timestamp": entry.max_timestamp,
        "key": place.keys.full(entry.key),
    }


def _prefix(place: Place) -> str:
    if place.key is not None:
        return place.key
    if place.cluster_id is None:
        return ""
    above = cluster_prefix("", place.cluster_id)
    if place.topic_id is None:
        return above
    if place.partition is None:
        return f"{above}{TOPICS}{place.topic_id}/"
    return place.keys.prefix


def _time(ms: int) -> str:
    return "" if ms < 0 else show_second(ms)
