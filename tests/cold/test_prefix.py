"""The cold side of a partition as its readers see it, and the pages behind it."""

import asyncio
from dataclasses import replace
from threading import get_ident
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from tests.cold.makers import a_head, an_entry
from tests.hot.support import FixedClock
from tierlog.cold import codec, tree
from tierlog.cold.codec import open_page
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.head import Head, PageRef
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.pagecache import PageCache
from tierlog.cold.prefix import ColdPrefix
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Got, Span
from tierlog.types import Offset

if TYPE_CHECKING:
    from tierlog.cold.page import Page

SMALL = tree.Limits(entries_inline=2, leaf_entries=2, leaves_inline=2, index_leaves=2)


class CountingStore(MemoryStore):
    gets = 0

    async def get(
        self,
        key: str,
        *,
        span: Span | None = None,
        etag: str | None = None,
        version_id: str | None = None,
    ) -> Got:
        self.gets += 1
        await asyncio.sleep(0)
        return await super().get(key, span=span, etag=etag, version_id=version_id)


async def grown(count: int) -> tuple[CountingStore, PartitionKeys, Head]:
    """A manifest of `count` segments of 1,000 records, most of them in pages."""
    store = CountingStore(FixedClock())
    head = a_head()
    keys = PartitionKeys("c/", head.topic_id, head.partition)
    opened: dict[str, Page] = {}
    attempts = iter(range(10_000))
    for number in range(count):
        head, pages = tree.append(
            head,
            [an_entry(number)],
            mint=lambda: next(attempts),
            not_before_ms=0,
            opened=opened,
            limits=SMALL,
        )
        for page in pages:
            opened[page.key] = codec.decode_page(page.data, key=page.key)
            await store.put(keys.full(page.key), BytesBody(page.data))
    return store, keys, head


def test_before_the_first_publish_nothing_is_cold() -> None:
    store = MemoryStore(FixedClock())
    prefix = ColdPrefix(PartitionKeys("c/", "t", 0), PageCache(store))
    assert (prefix.uploaded_end, prefix.log_start, prefix.covers(Offset(0))) == (0, 0, False)
    assert asyncio.run(prefix.entry_for(Offset(0))) is None
    assert prefix.epochs.entries == ()


async def test_every_offset_finds_its_segment_with_two_reads_at_most() -> None:
    store, keys, head = await grown(19)
    for offset in range(0, 19_000, 500):
        prefix = ColdPrefix(keys, PageCache(store), head=head)
        store.gets = 0
        entry = await prefix.entry_for(Offset(offset))
        assert entry is not None
        assert entry.base <= offset < entry.next_offset
        assert store.gets <= 2
    assert await prefix.entry_for(Offset(19_000)) is None


async def test_pages_are_read_once() -> None:
    store, keys, head = await grown(19)
    prefix = ColdPrefix(keys, PageCache(store), head=head)
    await asyncio.gather(*(prefix.entry_for(Offset(0)) for _ in range(10)))
    assert store.gets == 2
    await prefix.entry_for(Offset(1500))
    assert store.gets == 2


async def test_pages_are_decoded_off_the_loop() -> None:
    store, keys, head = await grown(19)
    threads: set[int] = set()

    def opened(ref: PageRef, data: bytes) -> "Page":
        threads.add(get_ident())
        return open_page(ref, data)

    tasks = local_env().tasks
    prefix = ColdPrefix(keys, PageCache(store, tasks=tasks), head=head)
    with patch("tierlog.cold.codec.open_page", opened):
        assert await prefix.entry_for(Offset(0)) is not None
    assert threads
    assert get_ident() not in threads


async def test_the_page_cache_is_bounded() -> None:
    store, keys, head = await grown(19)
    cache = PageCache(store, bytes_max=1500)
    prefix = ColdPrefix(keys, cache, head=head)
    for offset in range(0, 19_000, 1000):
        await prefix.entry_for(Offset(offset))
    assert 1 <= len(cache) < 6
    assert cache.size_bytes <= 1500 or len(cache) == 1


async def test_a_read_that_fails_is_tried_by_the_next_reader() -> None:
    store, keys, head = await grown(19)
    prefix = ColdPrefix(keys, PageCache(store), head=head)
    kept = dict(store.shelf.items)
    store.shelf.items.clear()
    both = (prefix.entry_for(Offset(0)), prefix.entry_for(Offset(0)))
    failed = await asyncio.gather(*both, return_exceptions=True)
    assert [type(one) for one in failed] == [NoSuchObject, NoSuchObject]
    store.shelf.items.update(kept)
    assert await prefix.entry_for(Offset(0)) is not None


async def test_a_page_that_is_another_is_not_believed() -> None:
    store, keys, head = await grown(19)
    for key in list(store.shelf.items):
        await store.put(key, BytesBody(b"something else"))
    with pytest.raises(ColdCorrupt):
        await ColdPrefix(keys, PageCache(store), head=head).entry_for(Offset(0))


async def test_watchers_hear_of_a_newer_head_only() -> None:
    store, keys, old = await grown(1)
    _, _, new = await grown(2)
    prefix = ColdPrefix(keys, PageCache(store), head=None)
    heard: list[int] = []

    def note() -> None:
        heard.append(prefix.uploaded_end)

    prefix.watch(note)
    prefix.adopt(_at(new, version=5))
    prefix.adopt(_at(old, version=4))
    await asyncio.sleep(0)
    assert heard == [2000]
    assert prefix.epochs.entries == new.leader_epochs
    prefix.unwatch(note)
    prefix.adopt(_at(new, version=6))
    await asyncio.sleep(0)
    assert heard == [2000]


def _at(head: Head, *, version: int) -> Head:
    return replace(head, version=version)
