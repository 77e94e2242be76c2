"""The idempotent producers that a restored log begins with, from the bucket.

They stand in the footer's section of the last segment. Where everything of a partition has expired,
that one is garbage: it lies there for its grace all the same, which is far longer than a producer
goes on sending a batch again. After that nobody is left who could.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.cold import codec
from tierlog.cold.layout import parse_page_key, parse_segment_key
from tierlog.cold.page import LeafPage
from tierlog.cold.rebuild import read_footer, read_section
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head
    from tierlog.cold.layout import PartitionKeys
    from tierlog.objectstore.port import ObjectStore


async def last_producers(
    store: ObjectStore, keys: PartitionKeys, head: Head, last: Entry | None
) -> bytes:
    """As a log takes them; empty if there are none. `last` is the last segment that is served.

    Raises `NoSuchObject` and `ColdCorrupt`, of what is served alone: garbage may go at any time.
    """
    if last is not None:
        return await _producers_of(store, keys.full(last.key))
    try:
        key = await _last_garbage(store, keys, head)
        return b"" if key is None else await _producers_of(store, keys.full(key))
    except NoSuchObject:
        return b""


async def _last_garbage(store: ObjectStore, keys: PartitionKeys, head: Head) -> str | None:
    """The segment that was the last of the partition, if it is still known."""
    for one in head.garbage:
        name = parse_segment_key(one.key)
        if name is not None and name.last + 1 == head.next_offset:
            return one.key
    leaves = [one.key for one in head.garbage if one.segments_from >= 0]
    if not leaves:
        return None
    newest = max(leaves, key=_first_of)
    page = codec.decode_page((await store.get(keys.full(newest))).data, key=newest)
    if not isinstance(page, LeafPage) or page.entries[-1].next_offset != head.next_offset:
        return None
    return page.entries[-1].key


def _first_of(key: str) -> int:
    name = parse_page_key(key)
    assert name is not None, "segments do not have segments of their own"
    return name.first


async def _producers_of(store: ObjectStore, key: str) -> bytes:
    return await read_section(store, key, await read_footer(store, key), "producers")
