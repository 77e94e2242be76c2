"""Looking for small segments in a manifest: first in HEAD, then in its pages, a few at a turn.

References tell the mean size of the segments below them, so pages of large ones are not opened.
Pages do not change: once all of them were looked through in vain, they are not looked at again
until there are others, or more of them has left the local disk.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import takewhile

from tierlog.cold import merging
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.head import Head, PageRef
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.merging import Wanted
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.cold.pagecache import PageCache
from tierlog.types import Offset

PAGES_A_TURN = 16
"""Leaf pages that one turn opens: 4,096 segments."""
LEAVES_AT_ONCE = 8
"""Neighbouring leaf pages that a run may reach over."""


class Search:
    def __init__(self, pages: PageCache, keys: PartitionKeys) -> None:
        self._pages = pages
        self._keys = keys
        self._mark: object = None
        """What is being looked through."""
        self._place = Offset(0)
        """Up to here in vain."""
        self._is_over = False

    def is_worth(self, head: Head, wanted: Wanted) -> bool:
        """Whether to look for a run at all, as far as HEAD alone tells."""
        if wanted.target_bytes <= 0:
            return False
        if merging.count_small(head.entries, wanted) >= merging.RUN_MIN:
            return True
        return self.has_more(head, wanted)

    def has_more(self, head: Head, wanted: Wanted) -> bool:
        """Whether there are pages that were not looked through."""
        if self._is_over and self._mark == _mark(head, wanted):
            return False
        return any(_is_small(one, wanted) for one in (*head.indexes, *head.leaves))

    async def find(self, head: Head, wanted: Wanted) -> tuple[Entry, ...]:
        """A run to merge; empty: none was found in this turn."""
        run = merging.choose(head.entries, wanted)
        if run or not self.has_more(head, wanted) or wanted.segments_max < merging.RUN_MIN:
            return run
        if self._mark != (mark := _mark(head, wanted)):
            self._mark, self._place, self._is_over = mark, Offset(0), False
        return await self._find_in_pages(head, wanted)

    async def _find_in_pages(self, head: Head, wanted: Wanted) -> tuple[Entry, ...]:
        opened = 0
        async for leaves in self._containers(head, wanted):
            while group := self._group(leaves, wanted):
                if opened >= PAGES_A_TURN:
                    return ()
                entries = [one for ref in group for one in await self._entries(ref)]
                opened += len(group)
                run = merging.choose(entries, wanted)
                if run:
                    return run
                # The second half again, with what follows it.
                is_more = len(group) == LEAVES_AT_ONCE
                self._place = group[len(group) // 2].base if is_more else group[-1].next_offset
        self._is_over = True
        return ()

    async def _containers(self, head: Head, wanted: Wanted) -> AsyncIterator[Sequence[PageRef]]:
        """Leaf references that are listed in one place: no run reaches from one to another."""
        for ref in head.indexes:
            if ref.next_offset > self._place and _is_small(ref, wanted):
                page = await self._pages.get(self._keys, ref)
                if not isinstance(page, IndexPage):
                    raise ColdCorrupt(ref.key, "a leaf page stands where an index page belongs")
                yield page.leaves
        yield head.leaves

    def _group(self, leaves: Sequence[PageRef], wanted: Wanted) -> list[PageRef]:
        """The next neighbours with small segments."""
        left = [one for one in leaves if one.next_offset > self._place]
        first = next((n for n, one in enumerate(left) if _is_small(one, wanted)), len(left))
        some = left[first : first + LEAVES_AT_ONCE]
        return list(takewhile(lambda one: _is_small(one, wanted), some))

    async def _entries(self, ref: PageRef) -> Sequence[Entry]:
        page = await self._pages.get(self._keys, ref)
        if not isinstance(page, LeafPage):
            raise ColdCorrupt(ref.key, "an index page stands where a leaf page belongs")
        return page.entries


def _is_small(ref: PageRef, wanted: Wanted) -> bool:
    """In the mean; and some of it may be merged."""
    is_within = ref.next_offset > wanted.start and ref.base < wanted.end
    return is_within and ref.bytes < wanted.small_bytes * ref.segments and ref.segments > 1


def _mark(head: Head, wanted: Wanted) -> tuple[object, ...]:
    """Changes whenever pages may have something to merge that they did not have before."""
    refs = (*head.indexes, *head.leaves)
    end = min(wanted.end, refs[-1].next_offset) if refs else wanted.end
    return tuple(one.key for one in refs), end, wanted.segments_max, wanted.target_bytes
