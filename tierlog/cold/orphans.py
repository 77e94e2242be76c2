"""Orphans: objects of a partition that its manifest does not know (U8).

They are what is left of uploads that somebody did not live to publish, of pages whose commit lost,
of deletions that the store forgot. Nobody reads them; they only cost. An object is known if HEAD, a
page, or the garbage list names it; a leaf page in the garbage list answers for its segments, too.
Only keys that are called like segments and pages are judged: whatever else lies there belongs to
somebody.

Whether one may be collected is decided without a clock: the only writer who could still publish it
must be fenced, or be this process and know that it will not. HEAD must be read after the uploads in
flight were noted: what is published in between was in flight.

Memory: one leaf page at a time, since listing and manifest have the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tierlog.cold.codec import decode_page
from tierlog.cold.layout import HEAD, PAGES, RECEIPTS, TABLE, parse_page_key, parse_segment_key
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.cold.pagecache import PageCache
from tierlog.cold.prefix import ColdPrefix
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from tierlog.cold.head import Head, Writer
    from tierlog.cold.layout import PartitionKeys
    from tierlog.objectstore.port import ObjectStore, Stat
    from tierlog.types import LeaderEpoch

ORPHANS_MAX = 10_000
"""Remembered of one partition; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    key: str
    """Relative to the partition."""
    size: int
    modified_ms: int
    version_id: str | None
    leader_epoch: LeaderEpoch | None
    """Of whoever sent it; a page does not say."""


@dataclass(slots=True)
class Look:
    """What one listing of a partition showed."""

    objects: int = 0
    bytes: int = 0
    strange: int = 0
    """Objects that are called like nothing of ours."""
    orphans: list[Orphan] = field(default_factory=list)
    """Of any age."""
    more: int = 0
    """Orphans beyond those."""


class Manifest:
    """Which keys one HEAD accounts for."""

    def __init__(self, store: ObjectStore, keys: PartitionKeys, head: Head | None) -> None:
        self._store = store
        self._keys = keys
        self._head = head
        self._pages = PageCache(store)
        self._prefix = ColdPrefix(keys, self._pages, head=head)
        self._page_keys: set[str] | None = None
        self._garbage: set[str] | None = None

    async def knows(self, key: str) -> bool:
        """Of a key relative to the partition. What the store raises passes through: a page that was
        replaced meanwhile may be gone, and HEAD must be read again."""
        return await self.lists(key) or await self.lets_go(key)

    async def lets_go(self, key: str) -> bool:
        """Whether it is garbage, by itself or with its page."""
        return key in await self._garbage_keys()

    async def lists(self, key: str) -> bool:
        """Whether it is referred to."""
        name = parse_segment_key(key)
        if name is None:
            return key in await self._pages_listed()
        if self._head is not None and name.last < self._head.garbage_end:
            return False  # A page may list it yet, or be gone itself: only the garbage list counts.
        entry = await self._prefix.entry_for(name.base)
        return entry is not None and entry.key == key

    async def _pages_listed(self) -> set[str]:
        if self._page_keys is None:
            found: set[str] = set()
            head = self._head
            for ref in () if head is None else (*head.indexes, *head.leaves):
                found.add(ref.key)
            for ref in () if head is None else head.indexes:
                page = await self._pages.get(self._keys, ref)
                assert isinstance(page, IndexPage), "as its reference says"
                found.update(leaf.key for leaf in page.leaves)
            self._page_keys = found
        return self._page_keys

    async def _garbage_keys(self) -> set[str]:
        if self._garbage is None:
            listed = () if self._head is None else self._head.garbage
            self._garbage = {one.key for one in listed}
            for one in listed:
                if one.key.startswith(PAGES):
                    self._garbage |= await self._segments_of(one.key)
        return self._garbage

    async def _segments_of(self, key: str) -> set[str]:
        """Of a page that is garbage: they may be garbage by it alone."""
        full = self._keys.full(key)
        try:
            page = decode_page((await self._store.get(full)).data, key=full)
        except NoSuchObject:
            return set()  # Its segments went before it.
        return {one.key for one in page.entries} if isinstance(page, LeafPage) else set()


async def look_at(
    store: ObjectStore,
    keys: PartitionKeys,
    head: Head | None,
    *,
    paid: Callable[[], Awaitable[None]],
) -> Look:
    """List the partition. `paid` is awaited for every page of the listing."""
    look, manifest = Look(), Manifest(store, keys, head)
    async for page in store.list(keys.prefix):
        await paid()
        for stat in page:
            await _count(look, manifest, stat, key=keys.relative(stat.key) or stat.key)
    return look


async def _count(look: Look, manifest: Manifest, stat: Stat, *, key: str) -> None:
    look.objects += 1
    look.bytes += stat.size
    if not is_judged(key):
        look.strange += not is_ours(key)
    elif not await manifest.knows(key):
        if len(look.orphans) < ORPHANS_MAX:
            look.orphans.append(orphan_of(stat, key))
        else:
            look.more += 1


def is_judged(key: str) -> bool:
    """Whether a key relative to the partition can be an orphan at all."""
    return parse_segment_key(key) is not None or parse_page_key(key) is not None


def is_ours(key: str) -> bool:
    return key in (HEAD, TABLE) or key.startswith((RECEIPTS, "pq/", "chk/"))


def orphan_of(stat: Stat, key: str) -> Orphan:
    name = parse_segment_key(key)
    return Orphan(
        key=key,
        size=stat.size,
        modified_ms=stat.modified_ms,
        version_id=stat.version_id,
        leader_epoch=None if name is None else name.leader_epoch,
    )


def is_old(orphan: Orphan, *, now_ms: int, age_ms: int) -> bool:
    """By the store's clock. One that does not tell is believed to be old: there is a second
    sighting, by ours."""
    return orphan.modified_ms < 0 or now_ms - orphan.modified_ms >= age_ms


def may_be_collected(
    orphan: Orphan, head: Head | None, *, writer: Writer, in_flight: Collection[str]
) -> bool:
    """Whether nobody can publish it any more. `in_flight`: of `writer`, noted before HEAD was
    read."""
    if head is None or orphan.key in in_flight:
        return False
    if orphan.leader_epoch is not None and orphan.leader_epoch < head.writer.leader_epoch:
        return True  # Whoever sent it is fenced.
    is_mine = head.writer == writer
    return is_mine and (orphan.leader_epoch or 0) <= writer.leader_epoch
