"""The page tree of a manifest: how a run of its entries is replaced by one.

The run lies in HEAD, or in neighbouring leaf pages that are all listed by HEAD, or all by one index
page. Pages are never changed: the leaves that the run touches are written anew, fewer of them where
that is enough, and the index page above them. What was replaced, segments and pages, becomes
garbage in the same HEAD: readers of an older one find everything until its time has come.

Pure, as `tree`: pages that must be read first are asked for, pages to be written are handed out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tierlog.cold import chain, codec
from tierlog.cold.entry import Entry
from tierlog.cold.errors import InvariantBroken
from tierlog.cold.head import MERGE, Garbage, Head, PageRef
from tierlog.cold.layout import page_key
from tierlog.cold.page import IndexPage, LeafPage, NewPage, Page
from tierlog.cold.refusals import RunChanged, name_of
from tierlog.cold.tree import (
    LIMITS,
    Appended,
    Limits,
    Opened,
    bounded,
    chain_before,
    open_index,
    open_leaf,
)
from tierlog.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """The part of a manifest that is written anew."""

    index: PageRef | None = None
    """The index page that lists the leaves; None if HEAD does."""
    leaves: tuple[PageRef, ...] = ()
    """Those that hold the run; none if it stands in HEAD."""
    entries: tuple[Entry, ...]
    """All of these leaves, or all in HEAD."""
    chain_before: str


def region_of(head: Head, base: Offset, end: Offset, opened: Opened) -> Region | PageRef | None:
    """Where the entries of `[base, end)` stand; the page that must be read first; None if they are
    not in one place."""
    if head.entries and base >= head.entries[0].base:
        return Region(entries=head.entries, chain_before=chain_before(head))
    if head.leaves and base >= head.leaves[0].base:
        return _in_leaves(None, head.leaves, base, end, opened)
    index = next((one for one in head.indexes if base < one.next_offset), None)
    if index is None:
        return None
    if index.key not in opened:
        return index
    return _in_leaves(index, open_index(index, opened).leaves, base, end, opened)


def _in_leaves(
    index: PageRef | None, refs: Sequence[PageRef], base: Offset, end: Offset, opened: Opened
) -> Region | PageRef | None:
    touched = tuple(one for one in refs if base < one.next_offset and one.base < end)
    if not touched or end > touched[-1].next_offset:
        return None
    missing = next((one for one in touched if one.key not in opened), None)
    if missing is not None:
        return missing
    entries = tuple(entry for one in touched for entry in open_leaf(one, opened).entries)
    return Region(
        index=index, leaves=touched, entries=entries, chain_before=touched[0].chain_before
    )


def is_replaced(region: Region, merged: Entry) -> bool:
    """Whether it has happened already."""
    return any(one.key == merged.key for one in region.entries)


def replaced(
    head: Head,
    region: Region,
    merged: Entry,
    keys: Sequence[str],
    sources: Sequence[Entry],
    *,
    mint: Callable[[], int],
    not_before_ms: int,
    opened: Opened,
    limits: Limits = LIMITS,
) -> Appended:
    """HEAD with `merged` in place of the entries of these keys, linked into the chain by `sources`,
    as which they were uploaded. Raises `RunChanged` unless they stand there, one after the
    other."""
    first = next((n for n, one in enumerate(region.entries) if one.base == merged.base), 0)
    run = region.entries[first : first + len(keys)]
    if [one.key for one in run] != list(keys) or head.log_start > merged.base:
        raise RunChanged(merged.base, merged.next_offset, of=name_of(head))
    before = region.entries[first - 1].chain if first else region.chain_before
    merged = chain.replacing(merged, sources, before=before)
    require_same(run, merged, before=before)
    chain.replay(merged, sources, key=merged.key)
    entries = (*region.entries[:first], merged, *region.entries[first + len(run) :])
    return _Replacing(head, region, mint, not_before_ms, opened, limits).done(run, merged, entries)


def require_same(run: Sequence[Entry], merged: Entry, *, before: str) -> None:
    """What readers rely on: the same offsets, the same records, the same place in the chain."""
    if (run[0].base, run[-1].last) != (merged.base, merged.last):
        raise InvariantBroken("merge", f"{merged.key} covers other offsets than its sources")
    counts = [(one.records, one.batches, one.data_bytes) for one in run]
    if tuple(map(sum, zip(*counts, strict=True))) != (
        merged.records,
        merged.batches,
        merged.data_bytes,
    ):
        raise InvariantBroken("merge", f"{merged.key} holds other records than its sources")
    assert len(run) > 1, "what would be merged"
    if merged.chain != run[-1].chain or not chain.follows(before, merged):
        raise InvariantBroken("merge", f"{merged.key} is not linked into the chain")


class _Replacing:
    """One call of `replaced`: the head as it becomes, and the pages it needs."""

    def __init__(
        self,
        head: Head,
        region: Region,
        mint: Callable[[], int],
        not_before_ms: int,
        opened: Opened,
        limits: Limits,
    ) -> None:
        self._head = head
        self._region = region
        self._mint = mint
        self._not_before_ms = not_before_ms
        self._opened = opened
        self._limits = limits
        self._pages: list[NewPage] = []

    def done(self, run: Sequence[Entry], merged: Entry, entries: Sequence[Entry]) -> Appended:
        head = self._head
        gone = [self._garbage(one) for one in run]
        size = head.bytes - sum(one.size for one in run) + merged.size
        head = replace(head, bytes=size, garbage=(*head.garbage, *gone))
        if not self._region.leaves:
            return Appended(replace(head, entries=tuple(entries)), ())
        return self._with_leaves(head, self._new_leaves(entries))

    def _garbage(self, entry: Entry) -> Garbage:
        return Garbage(
            entry.key,
            entry.version_id,
            self._not_before_ms,
            why=MERGE,
            policy_version=self._head.policy_version,
            sha256=entry.sha256,
            size=entry.size,
        )

    def _new_leaves(self, entries: Sequence[Entry]) -> tuple[PageRef, ...]:
        head, size = self._head, self._limits.leaf_entries
        leaves: list[PageRef] = []
        before = self._region.chain_before
        for start in range(0, len(entries), size):
            leaf = LeafPage(
                topic_id=head.topic_id,
                partition=head.partition,
                chain_before=before,
                entries=tuple(entries[start : start + size]),
            )
            before = leaf.chain_after
            leaves.append(self._write(leaf, leaf.entries[0].base))
        return tuple(leaves)

    def _with_leaves(self, head: Head, leaves: tuple[PageRef, ...]) -> Appended:
        region = self._region
        gone: tuple[PageRef, ...] = region.leaves
        if region.index is None:
            head = replace(head, leaves=_spliced(head.leaves, region.leaves, leaves))
        else:
            listed = open_index(region.index, self._opened).leaves
            page = IndexPage(
                topic_id=head.topic_id,
                partition=head.partition,
                leaves=_spliced(listed, region.leaves, leaves),
            )
            ref = self._write(page, page.leaves[0].base)
            head = replace(head, indexes=_spliced(head.indexes, (region.index,), (ref,)))
            gone = (*gone, region.index)
        garbage = [Garbage(one.key, None, self._not_before_ms) for one in gone]
        head = replace(head, garbage=bounded((*head.garbage, *garbage)))
        return Appended(head, tuple(self._pages))

    def _write(self, page: Page, first: Offset) -> PageRef:
        data = codec.encode_page(page)
        ref = codec.refer(page, key=page_key(first=first, attempt=self._mint()), data=data)
        self._pages.append(NewPage(ref=ref, data=data))
        return ref


def _spliced(
    refs: Sequence[PageRef], old: Sequence[PageRef], new: Sequence[PageRef]
) -> tuple[PageRef, ...]:
    place = list(refs).index(old[0])
    return (*refs[:place], *new, *refs[place + len(old) :])
