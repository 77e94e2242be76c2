"""Walks a whole manifest and says what is wrong with it; nothing is taken on trust.

Every page is read and compared with its reference, every entry with the chain from the anchor on,
every segment object with what the store lists under its key. What became garbage is not asked
for, though pages may list it yet. What is found is collected, not
raised: whoever restores wants to hear all of it, and serves what is sound.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tierlog.cold import chain, codec
from tierlog.cold.errors import ColdError
from tierlog.cold.layout import SEGMENTS
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head, PageRef
    from tierlog.cold.layout import PartitionKeys
    from tierlog.cold.page import Page
    from tierlog.objectstore.port import ObjectStore
    from tierlog.types import Offset

READS_AT_ONCE = 16
"""Of pages. A thousand segments are four pages: more at once would only wait in line."""


class Walk:
    """One walk over one HEAD. `problems` are sentences for people."""

    def __init__(self, store: ObjectStore, keys: PartitionKeys, head: Head) -> None:
        self.problems: list[str] = []
        self.last: Entry | None = None
        """The last segment."""
        self._store = store
        self._keys = keys
        self._head = head
        self._chain = head.chain_anchor
        self._end: Offset | None = None
        self._sizes: dict[str, int] = {}

    async def run(self) -> None:
        await self._list_objects()
        async for leaf in self._leaves():
            self._follow(leaf)
        self._check_entries(self._head.entries, key=self._keys.head)
        if self._end is not None and self._end != self._head.next_offset:
            self._check_gap(self._end, self._head.next_offset)

    async def _list_objects(self) -> None:
        prefix = self._keys.full(SEGMENTS)
        async for page in self._store.list(prefix):
            for stat in page:
                self._sizes[SEGMENTS + stat.key.removeprefix(prefix)] = stat.size

    async def _leaves(self) -> AsyncIterator[tuple[PageRef, LeafPage | None]]:
        for ref in self._head.indexes:
            page = await self._read(ref)
            if isinstance(page, IndexPage):
                async for leaf in self._opened(self._kept(page.leaves)):
                    yield leaf
            else:
                self._complain(f"{ref.key}: its offsets {_range(ref)} cannot be found")
                yield ref, None
        async for leaf in self._opened(self._head.leaves):
            yield leaf

    def _kept(self, leaves: Sequence[PageRef]) -> list[PageRef]:
        """Those of an index page that are not garbage: the page itself stays as it was."""
        kept = [ref for ref in leaves if ref.next_offset > self._head.garbage_end]
        if kept and len(kept) < len(leaves):
            self._chain = kept[0].chain_before
        return kept

    async def _opened(
        self, refs: Sequence[PageRef]
    ) -> AsyncIterator[tuple[PageRef, LeafPage | None]]:
        for first in range(0, len(refs), READS_AT_ONCE):
            some = refs[first : first + READS_AT_ONCE]
            pages = await asyncio.gather(*map(self._read, some))
            for ref, page in zip(some, pages, strict=True):
                yield ref, page if isinstance(page, LeafPage) else None

    async def _read(self, ref: PageRef) -> Page | None:
        try:
            got = await self._store.get(self._keys.full(ref.key))
            return codec.open_page(ref, got.data)
        except (NoSuchObject, ColdError) as fault:
            self._complain(str(fault))
            return None

    def _follow(self, leaf: tuple[PageRef, LeafPage | None]) -> None:
        ref, page = leaf
        if ref.chain_before != self._chain:
            self._complain(f"the chain breaks before {ref.key}")
        self._chain = ref.chain_before
        if page is not None:
            self._check_entries(page.entries, key=ref.key)
        self._chain, self._end = ref.chain_after, ref.next_offset

    def _check_entries(self, entries: Sequence[Entry], *, key: str) -> None:
        for entry in entries:
            if chain.after(self._chain, entry) != entry.chain:
                self._complain(f"{key}: the chain breaks at the entry of offset {entry.base}")
            if self._end is not None:
                self._check_gap(self._end, entry.base)
            if entry.next_offset > self._head.garbage_end:
                self._check_object(entry)
            self._chain, self._end, self.last = entry.chain, entry.next_offset, entry

    def _check_gap(self, end: Offset, base: Offset) -> None:
        skips = self._head.skips
        if base != end and not any(skip.start <= end < base <= skip.end for skip in skips):
            self._complain(f"offsets {end} to {base} are in no segment")

    def _check_object(self, entry: Entry) -> None:
        size = self._sizes.get(entry.key)
        if size is None:
            self._complain(f"{entry.key} is missing: offsets {entry.base} to {entry.last}")
        elif size != entry.size:
            self._complain(f"{entry.key} has {size} bytes, {entry.size} were published")

    def _complain(self, problem: str) -> None:
        self.problems.append(problem)


def _range(ref: PageRef) -> str:
    return f"{ref.base} to {ref.next_offset - 1}"
