"""The manifest at a hundred and at a million segments: what a publish writes, what a search reads.

The large one is generated: a publish only ever touches its right edge, so the rest need not be
there. For the search some leaf pages are real and lie, with all index pages, in a real store.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.storewatch import Watched
from tests.cold.generated import Generated
from tests.cold.makers import TOPIC_ID, Bucket, an_entry
from tests.stores.servers import Server
from tierlog.cold import chain, codec
from tierlog.cold.head import LEAF_ENTRIES_MAX, Head, PageRef
from tierlog.cold.layout import PartitionKeys, page_key
from tierlog.cold.page import LeafPage
from tierlog.cold.pagecache import PageCache
from tierlog.cold.prefix import ColdPrefix
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.types import Offset

SEARCHES = 16
BYTES, REQUESTS = "bytes a publish", "PUTs a publish"


class Sampled(Generated):
    """As generated, but the leaves of `numbers` are real."""

    def __init__(self, segments: int, numbers: frozenset[int]) -> None:
        self._real = numbers
        super().__init__(segments)

    def _leaf(self, number: int, before: str) -> PageRef:
        if number not in self._real:
            return super()._leaf(number, before)
        first = number * LEAF_ENTRIES_MAX
        made = [an_entry(first + one) for one in range(LEAF_ENTRIES_MAX)]
        page = LeafPage(
            topic_id=TOPIC_ID, partition=7, chain_before=before, entries=chain.linked(before, made)
        )
        data = codec.encode_page(page)
        key = page_key(first=Offset(first * 1000), attempt=self.mint())
        self.objects[key] = data
        return codec.refer(page, key=key, data=data)


def publish_cost(segments: int, *, commits: int) -> Mapping[str, float]:
    """Bytes and requests of a publish of one segment, averaged over so many."""
    bucket = Generated(segments)
    head = bucket.head
    number, bytes_before, pages_before = segments, bucket.bytes_put, len(bucket.objects)
    head_bytes = 0
    for commit in range(commits):
        head = bucket.append(head, [an_entry(number + commit)])
        # Garbage aside: how much there is depends on how often one publishes, not on the size.
        head_bytes += len(codec.encode_head(replace(head, garbage=())))
    pages = len(bucket.objects) - pages_before
    return {
        BYTES: (head_bytes + bucket.bytes_put - bytes_before) / commits,
        REQUESTS: 1 + pages / commits,
    }


class Search:
    """Offsets among `segments` segments, by a reader that knows HEAD alone."""

    def __init__(self, server: Server, segments: int) -> None:
        self._server = server
        rng = random.Random(segments)
        leaves = segments // LEAF_ENTRIES_MAX
        self._numbers = rng.sample(range(leaves), min(SEARCHES, leaves))
        bucket = Sampled(segments, frozenset(self._numbers))
        self.head: Head = bucket.head
        self._keys = PartitionKeys("manifest", TOPIC_ID, 7)
        asyncio.run(self._upload(bucket))

    async def _upload(self, bucket: Bucket) -> None:
        env = local_env()
        store = self._server.open(env)
        for key, data in bucket.objects.items():
            await store.put(self._keys.full(key), BytesBody(data))
        await store.close()
        env.tasks.close()  # type: ignore[attr-defined]  # local ones have it

    def run(self) -> Mapping[str, float]:
        """Each search with empty hands: milliseconds and page GETs, the worst of them."""
        return asyncio.run(self._run())

    async def _run(self) -> Mapping[str, float]:
        env = local_env()
        store = Watched(self._server.open(env))
        times, gets = [], []
        for number in self._numbers:
            wanted = Offset((number * LEAF_ENTRIES_MAX + number % LEAF_ENTRIES_MAX) * 1000 + 500)
            prefix = ColdPrefix(self._keys, PageCache(store), head=self.head)
            store.taken()
            began = time.perf_counter()
            found = await prefix.entry_for(wanted)
            times.append(time.perf_counter() - began)
            assert found is not None
            assert found.base <= wanted < found.next_offset
            gets.append(store.taken()["get"])
        await store.close()
        env.tasks.close()  # type: ignore[attr-defined]  # local ones have it
        return {"ms": sorted(times)[len(times) // 2] * 1000, "page GETs": max(gets)}
