"""The page tree of a manifest: how it grows.

Recent entries stand in HEAD. When there are `entries_inline` of them they move into the last leaf
page: a partly filled one is replaced by a fuller one, so that leaves end up full and few. Leaves
that are full move on, a few at a time, into the last index page, likewise. So a publish is one
small PUT of HEAD, and now and then one or two pages before it, whatever the number of segments.

Pure: pages that must be read first are asked for (`to_open`), pages that must be written first are
handed out. A page is never changed; a replaced one becomes garbage, since readers may hold an older
HEAD that refers to it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tierlog.cold import chain, codec
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdCorrupt, InvariantBroken
from tierlog.cold.head import (
    ENTRIES_INLINE_MAX,
    INDEX_REFS_MAX,
    LEAF_ENTRIES_MAX,
    LEAF_REFS_INLINE_MAX,
    Garbage,
    Head,
    PageRef,
    Skip,
)
from tierlog.cold.layout import PAGES, page_key
from tierlog.cold.page import IndexPage, LeafPage, NewPage, Page
from tierlog.hot.epochs import EpochStart, LeaderEpochs
from tierlog.types import Offset

GARBAGE_PAGES_MAX = 64
"""Replaced pages that HEAD remembers, some 20 bytes each. Older ones are left to the search for
orphans (U8): leaking is allowed, a HEAD that grows without bound is not."""

Opened = Mapping[str, Page]
"""Pages that were read, by the key of their reference."""


class Limits(NamedTuple):
    """When pages are written. The defaults are the format's; tests take smaller ones."""

    entries_inline: int = ENTRIES_INLINE_MAX
    leaf_entries: int = LEAF_ENTRIES_MAX
    leaves_inline: int = LEAF_REFS_INLINE_MAX
    index_leaves: int = INDEX_REFS_MAX


LIMITS = Limits()


class Appended(NamedTuple):
    head: Head
    pages: tuple[NewPage, ...]
    """To be put before HEAD is."""


def append(
    head: Head,
    entries: Sequence[Entry],
    *,
    mint: Callable[[], int],
    not_before_ms: int,
    opened: Opened | None = None,
    limits: Limits = LIMITS,
) -> Appended:
    """HEAD with these segments at its end. Version, nonce and time are the publisher's to set.

    `mint` gives the attempt of each new page's key; replaced pages may be deleted at
    `not_before_ms`. `opened` holds what `to_open(extend(head, entries))` named.
    """
    grown = extend(head, entries)
    return seal(grown, mint=mint, not_before_ms=not_before_ms, opened=opened or {}, limits=limits)


def extend(head: Head, entries: Iterable[Entry]) -> Head:
    """The entries linked into the chain and listed in HEAD; pages are `seal`'s business."""
    linked = chain.linked(last_chain(head), entries)
    next_offset = head.next_offset
    epochs = LeaderEpochs(head.leader_epochs)
    for entry in linked:
        if entry.base != next_offset:
            raise InvariantBroken(
                "tiling", f"an entry begins at {entry.base}, the manifest ends at {next_offset}"
            )
        next_offset = entry.next_offset
        for epoch, start in entry.leader_epochs:
            epochs.note(epoch, max(start, entry.base))
    return replace(
        head,
        entries=(*head.entries, *linked),
        next_offset=next_offset,
        leader_epochs=from_start(epochs, head.log_start, next_offset),
        records=head.records + sum(entry.records for entry in linked),
        bytes=head.bytes + sum(entry.size for entry in linked),
    )


def from_start(epochs: LeaderEpochs, start: Offset, end: Offset) -> tuple[EpochStart, ...]:
    """Those of what is still there: a log of many leaders must not outgrow HEAD."""
    if start < end:
        epochs.trim(start)
    return epochs.entries


def skip(head: Head, to: Offset, *, now_ms: int) -> Head:
    """Offsets up to `to` are not uploaded any more: DeleteRecords took them (U10)."""
    assert to > head.next_offset
    gap = Skip(head.next_offset, to, now_ms)
    return replace(head, next_offset=to, skips=(*needed_skips(head), gap))


def needed_skips(head: Head) -> tuple[Skip, ...]:
    """Those that tell of offsets from the log start, or from the first row, on. The others tell of
    what is gone anyway: kept for ever they would fill HEAD."""
    listed = (head.indexes, head.leaves, head.entries)
    first = next((rows[0].base for rows in listed if rows), head.log_start)
    start = min(head.log_start, first)
    return tuple(one for one in head.skips if one.end > start)


def last_chain(head: Head) -> str:
    """The chain's value behind everything that is listed."""
    if head.entries:
        return head.entries[-1].chain
    refs = head.leaves or head.indexes
    return refs[-1].chain_after if refs else head.chain_anchor


def to_open(head: Head, *, limits: Limits = LIMITS) -> tuple[PageRef, ...]:
    """The pages that `seal` needs: those it will replace by fuller ones."""
    if len(head.entries) < limits.entries_inline:
        return ()
    partial = _partial_leaf(head, limits)
    entries = len(head.entries) + (partial.segments if partial else 0)
    leaves = len(head.leaves) - bool(partial) + -(-entries // limits.leaf_entries)
    needed = [partial] if partial else []
    if leaves > limits.leaves_inline and (index := _partial_index(head, limits)):
        needed.append(index)
    return tuple(needed)


def seal(
    head: Head,
    *,
    mint: Callable[[], int],
    not_before_ms: int,
    opened: Opened,
    limits: Limits = LIMITS,
) -> Appended:
    """Entries into leaf pages, leaves into index pages, where there are enough of them."""
    if len(head.entries) < limits.entries_inline:
        return Appended(head, ())
    sealing = _Sealing(head, mint, not_before_ms, opened, limits)
    sealing.seal_entries()
    if len(sealing.head.leaves) > limits.leaves_inline:
        sealing.seal_leaves()
    return sealing.done()


def _partial_leaf(head: Head, limits: Limits) -> PageRef | None:
    last = head.leaves[-1] if head.leaves else None
    return last if last and last.segments < limits.leaf_entries else None


def _partial_index(head: Head, limits: Limits) -> PageRef | None:
    last = head.indexes[-1] if head.indexes else None
    full = limits.leaf_entries * limits.index_leaves
    return last if last and last.segments < full else None


class _Sealing:
    """One call of `seal`: the head as it becomes, and the pages it needs."""

    def __init__(
        self,
        head: Head,
        mint: Callable[[], int],
        not_before_ms: int,
        opened: Opened,
        limits: Limits,
    ) -> None:
        self.head = head
        self._mint = mint
        self._not_before_ms = not_before_ms
        self._opened = opened
        self._limits = limits
        self._pages: list[NewPage] = []

    def seal_entries(self) -> None:
        head, size = self.head, self._limits.leaf_entries
        entries, leaves = head.entries, head.leaves
        partial = _partial_leaf(head, self._limits)
        before = chain_before(head)
        if partial:
            page = open_leaf(partial, self._opened)
            codec.check_page(partial, page)
            entries = (*page.entries, *entries)
            leaves, before = leaves[:-1], partial.chain_before
            self._discard(partial)
        for start in range(0, len(entries), size):
            leaf = LeafPage(
                topic_id=head.topic_id,
                partition=head.partition,
                chain_before=before,
                entries=entries[start : start + size],
            )
            before = leaf.chain_after
            leaves = (*leaves, self._write(leaf, leaf.entries[0].base))
        self.head = replace(self.head, entries=(), leaves=leaves)

    def seal_leaves(self) -> None:
        """Full leaves move; a partly filled one stays, since it is about to be replaced."""
        head, size = self.head, self._limits.index_leaves
        staying = (head.leaves[-1],) if _partial_leaf(head, self._limits) else ()
        moving = head.leaves[: len(head.leaves) - len(staying)]
        indexes = head.indexes
        if partial := _partial_index(head, self._limits):
            page = open_index(partial, self._opened)
            codec.check_page(partial, page)
            moving = (*page.leaves, *moving)
            indexes = indexes[:-1]
            self._discard(partial)
        for start in range(0, len(moving), size):
            index = IndexPage(
                topic_id=head.topic_id,
                partition=head.partition,
                leaves=moving[start : start + size],
            )
            indexes = (*indexes, self._write(index, index.leaves[0].base))
        self.head = replace(self.head, leaves=staying, indexes=indexes)

    def done(self) -> Appended:
        # A leaf that was written and moved into an index in one go is referred to by that index.
        return Appended(self.head, tuple(self._pages))

    def _write(self, page: Page, first: Offset) -> PageRef:
        data = codec.encode_page(page)
        ref = codec.refer(page, key=page_key(first=first, attempt=self._mint()), data=data)
        self._pages.append(NewPage(ref=ref, data=data))
        return ref

    def _discard(self, ref: PageRef) -> None:
        garbage = (*self.head.garbage, Garbage(ref.key, None, self._not_before_ms))
        self.head = replace(self.head, garbage=bounded(garbage))


def chain_before(head: Head) -> str:
    """The chain's value before the first entry in HEAD."""
    refs = head.leaves or head.indexes
    return refs[-1].chain_after if refs else head.chain_anchor


def bounded(garbage: tuple[Garbage, ...]) -> tuple[Garbage, ...]:
    # Never one that takes segments with it: those are worth more than a page.
    pages = [one for one in garbage if one.key.startswith(PAGES) and one.segments_from < 0]
    forgotten = set(pages[: max(0, len(pages) - GARBAGE_PAGES_MAX)])
    return tuple(one for one in garbage if one not in forgotten)


def open_leaf(ref: PageRef, opened: Opened) -> LeafPage:
    """The page, which the caller promised to have read; `ColdCorrupt` if it is no leaf."""
    page = opened[ref.key]
    if not isinstance(page, LeafPage):
        raise ColdCorrupt(ref.key, "an index page stands where a leaf page belongs")
    return page


def open_index(ref: PageRef, opened: Opened) -> IndexPage:
    page = opened[ref.key]
    if not isinstance(page, IndexPage):
        raise ColdCorrupt(ref.key, "a leaf page stands where an index page belongs")
    return page
