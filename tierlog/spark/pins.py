"""What a read stands on: one version of each partition's manifests, looked up on the driver.

HEAD is read first, then TABLE: the table follows the log, so what TABLE lists beyond this HEAD is
left out, and nothing that HEAD lists is missing from both. Everything is clamped to HEAD's log
start. With brokers named, the first offset and the end are theirs, and topics are found by the ids
that they tell.

Objects that leave the manifests afterwards stay for their grace period; a read that is begun later
than that fails with what is missing, and never returns less.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tierlog.cold import codec
from tierlog.cold.bucketview import BucketView, Place
from tierlog.cold.head import PageRef
from tierlog.objectstore.errors import NoSuchObject
from tierlog.spark import bytime, deadletters, hottail, resolving, tables
from tierlog.spark.bounds import PartitionName
from tierlog.spark.errors import NotReadable
from tierlog.spark.options import Assign, Subscribe, SubscribePattern
from tierlog.spark.plan import ParquetSlice, Span, slices_of, uncovered
from tierlog.spark.segments import raw_segment
from tierlog.table.reading import read_table

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Collection,
        Coroutine,
        Iterable,
        Mapping,
        Sequence,
    )

    from tierlog.client import Client
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
    from tierlog.cold.layout import PartitionKeys
    from tierlog.spark.options import Chosen, ReadOptions
    from tierlog.spark.plan import RawSegment, Slice
    from tierlog.spark.stores import Opened
    from tierlog.table.manifest import Table


T = TypeVar("T")

ASKS_AT_ONCE = 16
"""Partitions that are asked about side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """One partition, as it was when the read was planned."""

    name: PartitionName
    place: Place
    head: Head | None
    """None: nothing of it is in the bucket."""
    table: Table | None
    earliest: int
    latest: int

    @property
    def bucket_end(self) -> int:
        return self.earliest if self.head is None else self.head.next_offset

    @property
    def keys(self) -> PartitionKeys:
        return self.place.keys


class Pins:
    """Opened by `pinning`; lives while the driver plans."""

    def __init__(self, view: BucketView, client: Client | None) -> None:
        self.view = view
        self._client = client

    async def pin(
        self,
        options: ReadOptions,
        *,
        left_out: Collection[PartitionName] = (),
        with_tables: bool = True,
        may_lack: Collection[str] = (),
    ) -> dict[PartitionName, Pinned]:
        """Every partition that is chosen, by name, but for those that are left out. Who asks for
        ends alone needs no tables. Raises `NotReadable`, also for topics that are not there, but
        for those that may lack."""
        places = await self._places(options.chosen, may_lack)
        places = {name: one for name, one in places.items() if name not in left_out}
        manifests = await side_by_side(
            self._manifests(one, with_tables=with_tables) for one in places.values()
        )
        cold = {
            name: (place, *found)
            for (name, place), found in zip(places.items(), manifests, strict=True)
        }
        ends = {} if self._client is None else await hottail.ends_of(self._client, list(cold))
        return {
            name: _pinned(name, place, head, table, ends.get(name))
            for name, (place, head, table) in cold.items()
        }

    async def _manifests(
        self, place: Place, *, with_tables: bool
    ) -> tuple[Head | None, Table | None]:
        try:
            got = await self.view.store.get(place.keys.head)
        except NoSuchObject:
            return None, None
        head = codec.decode_head(got.data, key=place.keys.head)
        if not with_tables:
            return head, None
        return head, await read_table(self.view.store, place.keys)

    # Which partitions

    async def _places(
        self, chosen: Chosen, may_lack: Collection[str]
    ) -> dict[PartitionName, Place]:
        cluster_id = await self._cluster()
        known = await self._topics(cluster_id)
        wanted = _wanted(chosen, known, may_lack)
        return {
            name: Place(
                cluster_id=cluster_id,
                topic_id=known[name.topic][0],
                topic=name.topic,
                partition=name.partition,
            )
            for name in wanted
        }

    async def _cluster(self) -> str:
        clusters = await self.view.clusters()
        if len(clusters) > 1:
            raise NotReadable(
                f"the store holds {len(clusters)} clusters; name one with the option clusterId: "
                + ", ".join(clusters)
            )
        return clusters[0]

    async def _topics(self, cluster_id: str) -> dict[str, tuple[str, list[int]]]:
        """Id and partitions of each topic, as the brokers say, or else the bucket."""
        if self._client is not None:
            return await hottail.topics_of(self._client)
        state = await self.view.state(cluster_id)
        return {
            topic.name: (topic_id, list(range(topic.partitions)))
            for topic_id, topic in state.topics.items()
        }

    # What to read

    async def times(
        self, pinned: Mapping[PartitionName, Pinned], asked: Mapping[PartitionName, int]
    ) -> dict[PartitionName, int | None]:
        """The first offset at or after a time; None where no record is that late."""
        if self._client is not None:
            listed = await hottail.offsets_at(self._client, asked)
            return {name: None if at < 0 else at for name, at in listed.items()}
        found = await side_by_side(self._time(pinned[name], ms) for name, ms in asked.items())
        return dict(zip(asked, found, strict=True))

    async def _time(self, one: Pinned, ms: int) -> int | None:
        if one.head is None:
            return None
        return await bytime.first_offset(self.view, one.place, one.head, ms)

    async def spans(
        self, options: ReadOptions, pinned: Mapping[PartitionName, Pinned]
    ) -> list[Span]:
        """The bounds of a batch, resolved. Raises `DataLost` and `NotReadable`."""
        asked_start, asked_end = (
            resolving.asked_times(bound, pinned) for bound in (options.start, options.end)
        )
        starts = resolving.starts(options, pinned, await self.times(pinned, asked_start))
        ends = resolving.ends(options, pinned, await self.times(pinned, asked_end))
        return [
            Span(name=name, start=starts[name], end=ends[name], bucket_end=pinned[name].bucket_end)
            for name in sorted(pinned)
            if starts[name] < ends[name]
        ]

    async def slices(
        self, spans: Sequence[Span], pinned: Mapping[PartitionName, Pinned]
    ) -> list[Slice]:
        found = await side_by_side(self._slices(span, pinned[span.name]) for span in spans)
        return [one for some in found for one in some]

    async def _slices(self, span: Span, one: Pinned) -> list[Slice]:
        start, end = span.cold
        files = await tables.files_between(
            self.view.store, one.keys, one.table, start=start, end=end
        )
        segments: dict[str, RawSegment] = {}
        for low, high in uncovered(start, end, files):
            assert one.head is not None, "what is cold has a HEAD"
            async for entry in entries_between(self.view, one.place, one.head, low, high):
                segments[entry.key] = raw_segment(one.keys, entry)
        return slices_of(span, files, list(segments.values()))

    async def check_dead(self, options: ReadOptions, slices: Sequence[Slice]) -> None:
        """Whoever reads files that lack records should know it, as whoever reads the segments does.
        Raises `DataLost`."""
        for one in slices:
            if isinstance(one, ParquetSlice) and one.file.dead_records:
                lost = one.file.dead_records
                if not one.is_whole:
                    lost = await deadletters.records_between(self.view.store, one)
                resolving.check_dead(options, one, lost)


async def side_by_side(works: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """What each returns, in order; so many run at a time."""
    at_once = asyncio.Semaphore(ASKS_AT_ONCE)

    async def one(work: Coroutine[object, object, T]) -> T:
        async with at_once:
            return await work

    return await asyncio.gather(*map(one, works))


async def entries_between(
    view: BucketView, place: Place, head: Head, start: int, end: int
) -> AsyncIterator[Entry]:
    """Segments that hold offsets of `[start, end)`, in order; other pages are not opened."""
    stack: list[Entry | PageRef] = [*head.indexes, *head.leaves, *head.entries]
    stack.reverse()
    while stack:
        row = stack.pop()
        if row.next_offset <= start or row.base >= end:
            continue
        if isinstance(row, PageRef):
            stack += reversed(codec.rows_of(await view.page(place, row)))
        else:
            yield row


class pinning:
    def __init__(self, bucket: Opened, options: ReadOptions) -> None:
        self._bucket = bucket
        self._options = options
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Pins:
        client = None
        if self._options.brokers:
            client = await self._stack.enter_async_context(hottail.connected(self._options.brokers))
        view = BucketView(self._bucket.store, cluster_id=self._options.cluster_id)
        return Pins(view, client)

    async def __aexit__(self, *trouble: object) -> None:
        await self._stack.aclose()


def _pinned(
    name: PartitionName,
    place: Place,
    head: Head | None,
    table: Table | None,
    ends: tuple[int, int] | None,
) -> Pinned:
    earliest = 0 if head is None else head.log_start
    latest = 0 if head is None else max(head.next_offset, head.log_start)
    if ends is not None:
        earliest, latest = max(earliest, ends[0]), max(latest, ends[1])
    return Pinned(name=name, place=place, head=head, table=table, earliest=earliest, latest=latest)


def _wanted(
    chosen: Chosen, known: Mapping[str, tuple[str, list[int]]], may_lack: Collection[str]
) -> list[PartitionName]:
    if isinstance(chosen, SubscribePattern):
        pattern = re.compile(chosen.pattern)
        topics = [topic for topic in sorted(known) if pattern.fullmatch(topic)]
        return [PartitionName(topic, each) for topic in topics for each in known[topic][1]]
    names = chosen.topics if isinstance(chosen, Subscribe) else tuple(chosen.partitions)
    for topic in names:
        if topic not in known and topic not in may_lack:
            raise NotReadable(_no_topic(topic, known))
    if isinstance(chosen, Assign):
        return _assigned(chosen, known, may_lack)
    there = [topic for topic in names if topic in known]
    return [PartitionName(topic, each) for topic in there for each in known[topic][1]]


def _assigned(
    chosen: Assign, known: Mapping[str, tuple[str, list[int]]], may_lack: Collection[str]
) -> list[PartitionName]:
    found: list[PartitionName] = []
    for topic, some in chosen.partitions.items():
        there = known[topic][1] if topic in known else []
        found += (PartitionName(topic, each) for each in some if each in there)
        lacking = [each for each in some if each not in there]
        if lacking and topic not in may_lack:
            raise NotReadable(
                f"there is no partition {lacking[0]} of {topic}, which has {len(there)}"
            )
    return found


def _no_topic(topic: str, known: Mapping[str, object]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(topic, known, n=1)
    names = sorted(known)
    few = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    hint = f"did you mean {close[0]}?" if close else f"there are {few}" if names else "it has none"
    return f"there is no topic {topic} in the store; {hint}"
