"""Walks a whole manifest and says what is wrong with it; nothing is taken on trust.

Every page is read and compared with its reference, every entry with the chain from the anchor on
(in `codec.check_page`, and here for those that stand in HEAD), every segment object with what the
store lists under its key. What is found is collected, not raised: whoever restores or verifies
wants to hear all of it, and serves what is sound.

Below the log start everything counts as gone: pages whose entries all lie there are not opened, and
nobody asks for the objects, though pages may list them yet.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tierlog.cold import chain, codec
from tierlog.cold.agreed import read_agreed
from tierlog.cold.audit import Finding, Kind, Subject
from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.layout import SEGMENTS
from tierlog.cold.page import IndexPage, LeafPage
from tierlog.objectstore.errors import NoSuchObject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head, PageRef
    from tierlog.cold.layout import PartitionKeys
    from tierlog.cold.page import Page
    from tierlog.env import Tasks
    from tierlog.objectstore.port import Got, ObjectStore, Stat
    from tierlog.types import Offset

READS_AT_ONCE = 16
"""Of pages. A thousand segments are four pages: more at once would only wait in line."""


class Walk:
    """One walk over one HEAD."""

    def __init__(
        self, store: ObjectStore, keys: PartitionKeys, head: Head, *, tasks: Tasks | None = None
    ) -> None:
        """Pages are looked at in threads, if there are `tasks`."""
        self.findings: list[Finding] = []
        self.lost: list[PageRef] = []
        """Pages that are gone."""
        self.last: Entry | None = None
        """The last segment."""
        self.subject = Subject(head.topic, head.topic_id, head.partition)
        self.records = self.bytes = self.segments = 0
        """Of the entries that are not below the log start."""
        self.records_from_start = 0
        """The same, and of the segment that the log start lies in at most what is left."""
        self._all_records = self._all_bytes = 0
        self._store = store
        self._keys = keys
        self._head = head
        self._tasks = tasks
        self._chain: str | None = None
        """Behind what was walked; None before the first row."""
        self._early: set[str] | None = set()
        """Values of the chain up to the first entry that stays: the anchor is one of them. None
        once that was seen."""
        self._end: Offset | None = None
        self._is_whole = True

    @property
    def problems(self) -> list[str]:
        """Sentences for people."""
        return [one.sentence for one in self.findings]

    async def run(self, listed: Mapping[str, Stat] | None = None) -> None:
        """All of it, and each object as the store lists it. `listed` is by the key as entries have
        it; without it the store is asked."""
        listed = await self._list_objects() if listed is None else listed
        async for entry in self.entries():
            self.check_listed(entry, listed.get(entry.key))

    async def entries(self) -> AsyncIterator[Entry]:
        """Those from the log start on, in order; manifest, chain and contiguity are checked on the
        way."""
        async for ref, page in self._leaves():
            for entry in self._follow(ref, page):
                yield entry
        self._check_inline_chain()
        for entry in self._taken(self._head.entries):
            yield entry
        if self._end is not None and self._end != self._head.next_offset:
            self._check_gap(self._end, self._head.next_offset)
        if self._is_whole:
            self._check_totals()

    def check_listed(self, entry: Entry, stat: Stat | None) -> bool:
        """Whether the store has an object of this size."""
        if stat is None:
            self.complain(Kind.OBJECT_MISSING, entry, f"{entry.size} bytes", "there is none")
        elif stat.size != entry.size:
            self.complain(Kind.OBJECT_WRONG, entry, f"{entry.size} bytes", f"{stat.size} bytes")
        return stat is not None and stat.size == entry.size

    def complain(self, kind: Kind, about: Entry | PageRef, expected: str, found: str) -> None:
        self._add(kind, about.key, expected, found, about.base, about.next_offset)

    def _add(
        self,
        kind: Kind,
        key: str,
        expected: str,
        found: str,
        start: Offset | None = None,
        end: Offset | None = None,
    ) -> None:
        self.findings.append(
            Finding(
                kind=kind,
                key=self._keys.full(key),
                expected=expected,
                found=found,
                topic=self.subject.topic,
                partition=self.subject.partition,
                start=start,
                end=end,
            )
        )

    async def _list_objects(self) -> dict[str, Stat]:
        found: dict[str, Stat] = {}
        prefix = self._keys.full(SEGMENTS)
        async for page in self._store.list(prefix):
            found.update((SEGMENTS + stat.key.removeprefix(prefix), stat) for stat in page)
        return found

    # Pages

    async def _leaves(self) -> AsyncIterator[tuple[PageRef, LeafPage | None]]:
        for ref in self._head.indexes:
            page = None if self._is_gone(ref) else await self._read(ref)
            if isinstance(page, IndexPage):
                async for leaf in self._opened(self._kept(page.leaves)):
                    yield leaf
            else:
                yield ref, None
        async for leaf in self._opened(self._head.leaves):
            yield leaf

    def _kept(self, leaves: Sequence[PageRef]) -> list[PageRef]:
        """Those of an index page that are not garbage: the page itself stays as it was."""
        kept = [ref for ref in leaves if ref.next_offset > self._head.garbage_end]
        if kept and len(kept) < len(leaves):
            self._chain = kept[0].chain_before
            if self._early is not None:  # The anchor stays before the page while that is listed.
                self._early.add(leaves[0].chain_before)
        return kept

    async def _opened(
        self, refs: Sequence[PageRef]
    ) -> AsyncIterator[tuple[PageRef, LeafPage | None]]:
        for first in range(0, len(refs), READS_AT_ONCE):
            some = refs[first : first + READS_AT_ONCE]
            pages = await asyncio.gather(*map(self._read_unless_gone, some))
            for ref, page in zip(some, pages, strict=True):
                yield ref, page if isinstance(page, LeafPage) else None

    def _is_gone(self, row: Entry | PageRef) -> bool:
        return row.next_offset <= self._head.log_start

    async def _read_unless_gone(self, ref: PageRef) -> Page | None:
        return None if self._is_gone(ref) else await self._read(ref)

    async def _read(self, ref: PageRef) -> Page | None:
        key = self._keys.full(ref.key)
        try:
            return await read_agreed(self._store, key, partial(_checked, ref), self._tasks)
        except NoSuchObject:
            self.lost.append(ref)
            self.complain(Kind.PAGE_MISSING, ref, f"a page of {ref.segments} segments", "none")
        except ColdCorrupt as fault:
            self.complain(Kind.PAGE_WRONG, ref, f"SHA-256 {ref.sha256}", fault.reason)
        self._is_whole = False
        return None

    def _follow(self, ref: PageRef, page: LeafPage | None) -> Iterator[Entry]:
        self._check_link(ref, page)
        if page is not None:
            yield from self._taken(page.entries)
            self._passed(ref)
            return
        if self._end is not None:
            self._check_gap(self._end, ref.base)
        self._all_records += ref.records
        self._all_bytes += ref.bytes
        self._passed(ref)

    def _passed(self, ref: PageRef) -> None:
        self._chain, self._end = ref.chain_after, ref.next_offset

    def _check_link(self, ref: PageRef, page: LeafPage | None) -> None:
        if self._chain is not None and ref.chain_before != self._chain:
            self._break_at(ref, self._chain, ref.chain_before)
        if self._early is None:
            return
        self._early.add(ref.chain_before)
        if self._is_gone(ref):
            return
        self._early |= {one.chain for one in page.entries if self._is_gone(one)} if page else set()
        if page is not None and self._head.chain_anchor not in self._early:
            self._break_at(ref, self._head.chain_anchor, ref.chain_before)
        self._early = None

    def _break_at(self, ref: PageRef, expected: str, found: str) -> None:
        self.complain(Kind.CHAIN_BROKEN, ref, f"chain value {expected}", f"it follows {found}")

    # Entries

    def _check_inline_chain(self) -> None:
        before = self._head.chain_anchor if self._chain is None else self._chain
        for entry in self._head.entries:
            if chain.after(before, entry) != entry.chain:
                self.complain(
                    Kind.CHAIN_BROKEN, entry, f"an entry behind {before}", f"chain {entry.chain}"
                )
            before = entry.chain

    def _taken(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if self._end is not None:
                self._check_gap(self._end, entry.base)
            self._end, self.last = entry.next_offset, entry
            self._all_records += entry.records
            self._all_bytes += entry.size
            if not self._is_gone(entry):
                self.records += entry.records
                self.records_from_start += self._left_of(entry)
                self.bytes += entry.size
                self.segments += 1
                yield entry

    def _left_of(self, entry: Entry) -> int:
        start = self._head.log_start
        return (
            entry.records if entry.base >= start else min(entry.records, entry.next_offset - start)
        )

    def _check_gap(self, end: Offset, base: Offset) -> None:
        skips = self._head.skips
        if base != end and not any(skip.start <= end < base <= skip.end for skip in skips):
            self._add(
                Kind.OFFSETS_MISSING,
                self._keys.relative(self._keys.head) or "",
                f"a segment that begins at {end}",
                f"the next begins at {base}",
                min(end, base),
                max(end, base),
            )

    def _check_totals(self) -> None:
        """Between what is listed from the log start's segment on and all that is listed: what
        became of the segments below is known from HEAD's next change on."""
        head = self._head
        for what, total, least, most in (
            ("records", head.records, self.records, self._all_records),
            ("bytes", head.bytes, self.bytes, self._all_bytes),
        ):
            if not least <= total <= most:
                self._add(
                    Kind.TOTALS_WRONG,
                    self._keys.relative(self._keys.head) or "",
                    f"{least} {what}",
                    f"HEAD says {total}",
                )


def _checked(ref: PageRef, got: Got) -> Page:
    page = codec.open_page(ref, got.data)
    codec.check_page(ref, page)
    return page
