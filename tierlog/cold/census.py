"""Every object of a cluster and what it lies there for: one pass over the listing, nothing changed.

    referenced   segments that a manifest lists, and files that a table does
    garbage      what a manifest lets go, and all that is left of a deleted topic
    orphans      what nobody names: unpublished uploads, topics that STATE does not know, strangers
    metadata     HEADs, TABLEs, pages, receipts, the cluster's own objects
    unjudged     segments, files and pages whose manifest cannot be read

Every listed object is told once, so the sums over these are the listing, to the byte. Nodes may be
at work meanwhile: what a manifest does not know is judged again by the HEAD of a later moment, and
left out if it has gone. Where HEAD did not change from its row in the listing to the end of the
partition, the segments that were listed must add up to what HEAD says; if not, `troubles` tells.

Memory: one page of the listing, one leaf page, and what is unknown of one partition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from tierlog.cold.codec import decode_head
from tierlog.cold.errors import ColdError
from tierlog.cold.layout import HEAD, RECEIPTS, TABLE, TOPICS, PartitionKeys, parse_segment_key
from tierlog.cold.orphans import Manifest, is_judged
from tierlog.cold.tiersettings import DAY_MS
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tierlog.cold.clusterstate import ClusterState
    from tierlog.cold.head import Head
    from tierlog.objectstore.port import ObjectStore, Stat

TABLE_OBJECTS = "pq/"
READS_MAX = 3
"""Of HEAD, while pages that it names vanish because newer ones took their place."""
_PLACE = re.compile(r"([0-9a-f]{32})/(0|[1-9][0-9]{0,9})/(.+)")


class Standing(StrEnum):
    REFERENCED = "referenced"
    GARBAGE = "garbage"
    ORPHAN = "orphans"
    METADATA = "metadata"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One object of the listing."""

    stat: Stat
    standing: Standing
    what: str
    topic_id: str | None = None
    """None for what belongs to the cluster as a whole."""


class TableKeys(NamedTuple):
    """What a TABLE accounts for."""

    files: frozenset[str] = frozenset()
    pages: frozenset[str] = frozenset()
    garbage: frozenset[str] = frozenset()


@dataclass(slots=True)
class Census:
    """Counts while it is iterated."""

    store: ObjectStore
    prefix: str
    """The cluster's own."""
    state: ClusterState
    now_ms: int
    topic_id: str | None = None
    """Of this topic alone."""
    tables: Callable[[ObjectStore, PartitionKeys], Awaitable[TableKeys]] | None = None
    """Reads a TABLE. Without, whatever is called like a table's file is referenced."""
    objects: int = 0
    bytes: int = 0
    """Of the listing itself, less what vanished while it was judged."""
    troubles: list[str] = field(default_factory=list)

    @property
    def listed_below(self) -> str:
        return self.prefix + (f"{TOPICS}{self.topic_id}/" if self.topic_id else "")

    async def items(self) -> AsyncIterator[Item]:
        partition: _Partition | None = None
        async for page in self.store.list(self.listed_below):
            for stat in page:
                self.objects += 1
                self.bytes += stat.size
                place = _PLACE.fullmatch(stat.key.removeprefix(self.prefix + TOPICS))
                if place is None or place[1] not in self.state.topics:
                    yield self._outside(stat, None if place is None else place[1])
                    continue
                keys = PartitionKeys(self.prefix, place[1], int(place[2]))
                if partition is None or partition.keys != keys:
                    async for item in self._ended(partition):
                        yield item
                    partition = await _Partition(self, keys).begun()
                item_or_none = await partition.judged(stat, place[3])
                if item_or_none is not None:
                    yield item_or_none
        async for item in self._ended(partition):
            yield item

    async def _ended(self, partition: _Partition | None) -> AsyncIterator[Item]:
        if partition is None:
            return
        async for item in partition.rest():
            yield item
        for gone in partition.vanished:
            self.objects -= 1
            self.bytes -= gone.size
        if partition.trouble:
            name = self.state.topics[partition.keys.topic_id].name
            self.troubles.append(f"{name}-{partition.keys.partition}: {partition.trouble}")

    def _outside(self, stat: Stat, topic_id: str | None) -> Item:
        """Of no topic that lives."""
        if topic_id is not None and topic_id in self.state.deleted:
            standing, what = Standing.GARBAGE, "deleted topics"
        elif topic_id is not None:
            standing, what = Standing.ORPHAN, "topics that STATE does not know"
        elif stat.key.removeprefix(self.prefix).startswith(("cluster/", "format.json")):
            standing, what = Standing.METADATA, "cluster"
        else:
            standing, what = Standing.ORPHAN, "strangers"
        return Item(stat=stat, standing=standing, what=what, topic_id=topic_id)


class _Partition:
    """What one manifest says of the keys beside it."""

    def __init__(self, census: Census, keys: PartitionKeys) -> None:
        self.keys = keys
        self.trouble = ""
        self.vanished: list[Stat] = []
        self._store = census.store
        self._now_ms = census.now_ms
        self._tables = census.tables
        self._table: TableKeys | None = None
        self._manifest: Manifest | None = None
        self._head: Head | None = None
        self._etag = self._etag_listed = ""
        self._listed = 0
        self._unknown: list[tuple[Stat, str]] = []

    async def begun(self) -> _Partition:
        await self._read_head()
        return self

    async def _read_head(self) -> None:
        try:
            got = await self._store.get(self.keys.head)
            self._head, self._etag = decode_head(got.data, key=self.keys.head), got.stat.etag
        except NoSuchObject:
            self._head, self._etag = None, ""
        except ColdError as fault:
            self.trouble, self._manifest = f"nothing can be said: {fault}", None
            return
        self._manifest = Manifest(self._store, self.keys, self._head)

    async def judged(self, stat: Stat, key: str) -> Item | None:
        """None: not known yet, `rest` tells."""
        if key == HEAD:
            self._etag_listed = stat.etag
        found = await self._found(stat, key)
        if found is None:
            self._unknown.append((stat, key))
        return found

    async def _found(self, stat: Stat, key: str) -> Item | None:
        if key.startswith(TABLE_OBJECTS) and self._tables is not None:
            told = await self._of_table(key)
            return None if told is None else self._item(stat, *told)
        if not is_judged(key):
            return self._item(stat, *_by_name(key))
        standing = await self._standing(key)
        return None if standing is None else self._told(stat, key, standing)

    async def _of_table(self, key: str) -> tuple[Standing, str] | None:
        assert self._tables is not None
        try:
            if self._table is None:
                self._table = await self._tables(self._store, self.keys)
        except (ColdError, NoSuchObject) as fault:
            self.trouble = f"nothing can be said of its table: {fault}"
            return Standing.UNJUDGED, "Parquet"
        if key in self._table.files:
            return Standing.REFERENCED, "Parquet"
        if key in self._table.pages:
            return Standing.METADATA, "table manifests"
        return (Standing.GARBAGE, "Parquet") if key in self._table.garbage else None

    async def rest(self) -> AsyncIterator[Item]:
        """Those that were not known, by a HEAD and a TABLE that are read behind the listing."""
        if self._unknown or self._etag_listed != self._etag:
            await self._read_head()
        self._table = None
        for stat, key in self._unknown:
            found = await self._found(stat, key)
            if found is not None:
                yield found
            elif await self._is_gone(stat):
                self.vanished.append(stat)
            else:
                old = is_old_stat(stat, self._now_ms)
                what = "unpublished" if old else "unpublished, younger than a day"
                yield self._item(stat, Standing.ORPHAN, what)
        self._compare()

    async def _is_gone(self, stat: Stat) -> bool:
        """Collected since it was listed."""
        try:
            await self._store.head(stat.key)
        except NoSuchObject:
            return True
        return False

    async def _standing(self, key: str) -> Standing | None:
        for _ in range(READS_MAX):
            if self._manifest is None:
                return Standing.UNJUDGED
            try:
                if await self._manifest.lists(key):
                    return Standing.REFERENCED
                return Standing.GARBAGE if await self._manifest.lets_go(key) else None
            except NoSuchObject:
                await self._read_head()  # A page was replaced meanwhile.
            except ColdError as fault:
                self.trouble, self._manifest = f"nothing can be said: {fault}", None
        if not self.trouble:
            self.trouble = "a page that HEAD refers to is not there"
        return Standing.UNJUDGED

    def _told(self, stat: Stat, key: str, standing: Standing) -> Item:
        is_segment = parse_segment_key(key) is not None
        if standing is Standing.REFERENCED and not is_segment:
            return self._item(stat, Standing.METADATA, "pages")
        if standing is Standing.REFERENCED:
            self._listed += stat.size
        return self._item(stat, standing, "segments" if is_segment else "pages")

    def _item(self, stat: Stat, standing: Standing, what: str) -> Item:
        return Item(stat=stat, standing=standing, what=what, topic_id=self.keys.topic_id)

    def _compare(self) -> None:
        head = self._head
        if self.trouble or head is None or self._etag_listed != self._etag:
            return
        if self._listed != head.bytes:
            self.trouble = (
                f"HEAD tells of {head.bytes:,} bytes in segments, the listing has "
                f"{self._listed:,}: see `tierlog verify`"
            )


def is_old_stat(stat: Stat, now_ms: int) -> bool:
    """As for the report of orphans: what does not tell its age counts as old."""
    return stat.modified_ms < 0 or now_ms - stat.modified_ms >= DAY_MS


def _by_name(key: str) -> tuple[Standing, str]:
    """Of what is neither a segment nor a page."""
    if key == HEAD:
        return Standing.METADATA, "HEADs"
    if key.startswith(RECEIPTS):
        return Standing.METADATA, "receipts"
    if key == TABLE or key.startswith("chk/"):
        return Standing.METADATA, "table manifests"
    if key.startswith(TABLE_OBJECTS):
        return Standing.REFERENCED, "Parquet"
    return Standing.ORPHAN, "strangers"
