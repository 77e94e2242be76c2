"""Pages for somebody who waits: one deadline, and no second question to a store that is away."""

import asyncio

import pytest

from tests.cold.makers import Bucket, a_head, entries
from tierlog.cold import tree
from tierlog.cold.head import PageRef
from tierlog.cold.page import Page
from tierlog.cold.pagevisit import PageVisit
from tierlog.objectstore.errors import StoreUnavailable

SMALL = tree.Limits(entries_inline=3, leaf_entries=6, leaves_inline=4, index_leaves=3)


class Prefix:
    """A manifest whose pages come, hang, or are refused."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.known: set[str] = set()
        self.hangs = self.is_away = False
        self._bucket = Bucket(limits=SMALL)
        head = a_head()
        for number in range(20):
            head = self._bucket.append(head, entries([number]))
        self.refs = head.leaves

    def known_page(self, ref: PageRef) -> Page | None:
        return self._bucket.read(ref) if ref.key in self.known else None

    async def page(self, ref: PageRef) -> Page:
        self.asked.append(ref.key)
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_away:
            raise StoreUnavailable("away")
        return self._bucket.read(ref)


def visit_of(seconds: float) -> PageVisit:
    return PageVisit(asyncio.get_running_loop().time() + seconds)


async def test_pages_are_read_until_the_deadline() -> None:
    prefix, visit = Prefix(), visit_of(60)
    for ref in prefix.refs[:2]:
        await visit.page(prefix, ref)  # type: ignore[arg-type]  # What it needs of one.
    assert prefix.asked == [one.key for one in prefix.refs[:2]]
    assert not visit.is_over


@pytest.mark.parametrize("hangs", [True, False])
async def test_after_a_page_that_did_not_come_only_known_ones_are_given(hangs: bool) -> None:
    prefix, visit = Prefix(), visit_of(0.01 if hangs else 60)
    prefix.hangs, prefix.is_away = hangs, not hangs
    first, second = prefix.refs[:2]
    for ref in (first, second):
        with pytest.raises(StoreUnavailable):
            await visit.page(prefix, ref)  # type: ignore[arg-type]  # What it needs of one.
    assert prefix.asked == [first.key]
    assert visit.is_over
    prefix.known.add(second.key)
    await visit.page(prefix, second)  # type: ignore[arg-type]  # What it needs of one.
    assert prefix.asked == [first.key], "it was in memory"
