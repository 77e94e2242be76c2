"""Manifest pages in memory, shared by all partitions of a node.

Pages never change, so what was read once stays right; the least recently used go when there are too
many bytes. A page that several readers want is fetched once.
"""

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from tierlog.cold import codec
from tierlog.cold.head import PageRef
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.page import Page
from tierlog.env import Tasks
from tierlog.objectstore.port import ObjectStore
from tierlog.types import Bytes

PAGE_BYTES_MAX = 4 << 20
"""As stored, compressed some twenty times: 4 MiB are 180 leaf pages, or 46,000 segments."""


class _Kept(NamedTuple):
    page: Page
    size: int


class PageCache:
    def __init__(
        self, store: ObjectStore, *, tasks: Tasks | None = None, bytes_max: int = PAGE_BYTES_MAX
    ) -> None:
        """Without `tasks` pages are decoded where they are asked for: nobody else is there."""
        self._store = store
        self._tasks = tasks
        self._bytes_max = bytes_max
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._flights: dict[str, asyncio.Event] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, keys: PartitionKeys, ref: PageRef) -> Page:
        """The page that `ref` speaks of, checked against it. What the store raises passes."""
        key = keys.full(ref.key)
        while (kept := self._kept.get(key)) is None:
            flight = self._flights.get(key)
            if flight is None:
                return await self._fetch(key, ref)
            await flight.wait()  # If it failed, this one tries for itself.
        self._kept.move_to_end(key)
        return kept.page

    def known(self, key: str) -> Page | None:
        """What is here of a key of the store, without asking for it."""
        kept = self._kept.get(key)
        return None if kept is None else kept.page

    async def _fetch(self, key: str, ref: PageRef) -> Page:
        landed = self._flights[key] = asyncio.Event()
        try:
            page = await self._opened(ref, (await self._store.get(key)).data)
            self._keep(key, _Kept(page, ref.size))
            return page
        finally:
            del self._flights[key]
            landed.set()

    async def _opened(self, ref: PageRef, data: Bytes) -> Page:
        if self._tasks is None:
            return codec.open_page(ref, data)
        # A full page takes some milliseconds: not on the loop.
        return await self._tasks.in_thread(codec.open_page, ref, bytes(data))

    def _keep(self, key: str, kept: _Kept) -> None:
        self._kept[key] = kept
        self.size_bytes += kept.size
        while self.size_bytes > self._bytes_max and len(self._kept) > 1:
            self.size_bytes -= self._kept.popitem(last=False)[1].size
