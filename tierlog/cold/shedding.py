"""The page tree of a manifest: how it shrinks, from the front.

`log_start` moves first (`moved`), and with it nobody reads what lies below. Then whole segments
below it become garbage, as many as HEAD has room for (`shed`): the rest comes with a later commit.
Their entries leave HEAD; a page leaves with its last entry, since pages do not change, and until
then `garbage_end` says which of its entries count no more. A leaf page that goes whole takes its
segments with it: one item stands for up to 256 of them, so a fast partition does not fill HEAD.

Pure: where a page must be read first, its reference is the answer.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tierlog.cold.entry import Entry
from tierlog.cold.garbage_codec import EXPIRED_MAX
from tierlog.cold.head import DELETE_RECORDS, MERGE, Expired, Garbage, Head, PageRef
from tierlog.cold.layout import SEGMENTS
from tierlog.cold.tree import Opened, from_start, needed_skips, open_index, open_leaf
from tierlog.hot.epochs import LeaderEpochs
from tierlog.types import Offset

GARBAGE_SEGMENTS_MAX = 128
"""Expired segments that stand in HEAD's garbage by themselves, some 70 bytes each. More wait: until
some are deleted, or until their leaf page goes whole. Merged ones have a bound of their own
(`merger`): a partition that merges all the time would leave no room for what expires."""
GARBAGE_ITEMS_MAX = 1024
"""Of all kinds. A day of 128 MiB segments at 100 MB/s are 250 leaf pages."""
SHED_MAX = 256
"""Items that one commit adds."""


class Shed(NamedTuple):
    head: Head
    segments: int
    bytes: int
    """That became garbage."""


def moved(head: Head, log_start: Offset, *, why: str, now_ms: int) -> Head:
    """Nothing below `log_start` is served any more. Never back."""
    if log_start <= head.log_start:
        return head
    reason = Expired(log_start, why, head.policy_version, now_ms)
    known = head.expired
    if known and (known[-1][1:] == reason[1:] or len(known) == EXPIRED_MAX):
        known = known[:-1]  # One item says both; of too many, the last reason counts.
    return replace(head, log_start=log_start, expired=(*known, reason))


def shed_from(head: Head) -> Offset:
    """Where the segments begin that are not garbage."""
    if head.garbage_end >= 0:
        return head.garbage_end
    listed = (head.indexes, head.leaves, head.entries)
    return next((rows[0].base for rows in listed if rows), head.log_start)


def has_leftovers(head: Head) -> bool:
    """Whether `shed` may find something, told without opening a page."""
    first = next((rows[0] for rows in (head.indexes, head.leaves, head.entries) if rows), None)
    if first is None or _room(head) <= 0:
        return False
    if isinstance(first, Entry):
        return first.next_offset <= head.log_start and _segments_room(head) > 0
    return shed_from(head) < head.log_start


def shed(head: Head, opened: Opened, *, not_before_ms: int) -> Shed | PageRef:
    """HEAD without what lies wholly below its start; that is garbage then."""
    shedding = _Shedding(head, opened, not_before_ms)
    needed = shedding.run()
    return needed if needed is not None else shedding.done()


def _room(head: Head) -> int:
    return GARBAGE_ITEMS_MAX - len(head.garbage)


def _segments_room(head: Head) -> int:
    return GARBAGE_SEGMENTS_MAX - garbage_segments(head, merged=False)


def garbage_segments(head: Head, *, merged: bool) -> int:
    """Segments that stand in HEAD's garbage by themselves: merged away, or expired."""
    return sum(
        one.key.startswith(SEGMENTS) and (one.why == MERGE) == merged for one in head.garbage
    )


def garbage_of(entry: Entry, reason: Expired, *, not_before_ms: int) -> Garbage:
    """A segment that nothing refers to any more, with all that its receipt will say."""
    return Garbage(
        entry.key,
        entry.version_id,
        max(not_before_ms, entry.retain_until_ms),
        why=reason.why,
        policy_version=reason.policy_version,
        expired_ms=reason.time_ms,
        sha256=entry.sha256,
        size=entry.size,
    )


class _Shedding:
    """One call of `shed`: the head as it becomes."""

    def __init__(self, head: Head, opened: Opened, not_before_ms: int) -> None:
        self.head = head
        self._opened = opened
        self._not_before_ms = not_before_ms
        self._room = min(SHED_MAX, _room(head))
        self._segments_room = _segments_room(head)
        self._end = shed_from(head)
        self._added: list[Garbage] = []
        self._segments = self._records = self._bytes = 0
        self._missing: PageRef | None = None

    def run(self) -> PageRef | None:
        """A page that must be read first; None when it is done."""
        while self.head.indexes and self._take_index(self.head.indexes[0]):
            first, *rest = self.head.indexes
            self.head = replace(self.head, indexes=tuple(rest), chain_anchor=first.chain_after)
        while not self.head.indexes and self.head.leaves and self._take_leaf(self.head.leaves[0]):
            first, *rest = self.head.leaves
            self.head = replace(self.head, leaves=tuple(rest), chain_anchor=first.chain_after)
        if not self.head.indexes and not self.head.leaves:
            taken = self._take_entries(self.head.entries)
            if taken:
                anchor, left = self.head.entries[taken - 1].chain, self.head.entries[taken:]
                self.head = replace(self.head, entries=left, chain_anchor=anchor)
        return self._missing

    def done(self) -> Shed:
        head = self.head
        if self._end == shed_from(head) and not self._added:
            return Shed(head, 0, 0)
        head = replace(
            head,
            garbage=(*head.garbage, *self._added),
            garbage_end=self._end,
            expired=tuple(one for one in head.expired if one.end > self._end),
            records=head.records - self._records,
            bytes=head.bytes - self._bytes,
            leader_epochs=from_start(
                LeaderEpochs(head.leader_epochs), head.log_start, head.next_offset
            ),
        )
        return Shed(replace(head, skips=needed_skips(head)), self._segments, self._bytes)

    # Each answers whether it, or how many of them, became garbage whole

    def _take_index(self, ref: PageRef) -> bool:
        if self._end >= self.head.log_start:
            return False
        if ref.key not in self._opened:
            self._missing = ref
            return False
        for leaf in open_index(ref, self._opened).leaves:
            if leaf.next_offset > self._end and not self._take_leaf(leaf):
                return False
        return self._add_page(ref)

    def _take_leaf(self, leaf: PageRef) -> bool:
        """The page, and what of its segments is left."""
        start, is_begun = max(self._end, leaf.base), self._end > leaf.base
        if start >= self.head.log_start or self._room <= 0:
            return False
        reason = self._reason(start, leaf.next_offset)
        goes_whole = leaf.next_offset <= self.head.log_start and reason is not None
        if (is_begun or not goes_whole) and leaf.key not in self._opened:
            self._missing = leaf
            return False
        if not goes_whole:
            entries = [one for one in open_leaf(leaf, self._opened).entries if one.base >= start]
            self._take_entries(entries)
            return self._end == leaf.next_offset and self._add_page(leaf)
        if is_begun:
            entries = [one for one in open_leaf(leaf, self._opened).entries if one.base >= start]
            self._count(entries)
        else:
            self._segments += leaf.segments
            self._records += leaf.records
            self._bytes += leaf.bytes
        assert reason is not None
        self._add(
            Garbage(
                leaf.key,
                None,
                self._not_before_ms,
                why=reason.why,
                policy_version=reason.policy_version,
                expired_ms=reason.time_ms,
                sha256=leaf.sha256,
                size=leaf.size,
                segments_from=start,
            )
        )
        self._end = leaf.next_offset
        return True

    def _take_entries(self, entries: Sequence[Entry]) -> int:
        taken = 0
        for entry in entries:
            if entry.next_offset > self.head.log_start or min(self._room, self._segments_room) <= 0:
                break
            self._add(self._garbage(entry))
            self._segments_room -= 1
            self._end = entry.next_offset
            taken += 1
        self._count(entries[:taken])
        return taken

    def _count(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._segments += 1
            self._records += entry.records
            self._bytes += entry.size

    def _garbage(self, entry: Entry) -> Garbage:
        reason = self._reason(entry.base, entry.next_offset, may_mix=True)
        assert reason is not None
        return garbage_of(entry, reason, not_before_ms=self._not_before_ms)

    def _reason(self, start: Offset, end: Offset, *, may_mix: bool = False) -> Expired | None:
        """Why `[start, end)` is not served; None if there are several reasons. Of a segment the one
        counts that took its last record."""
        known = next((one for one in self.head.expired if one.end >= end), None)
        if known is None:
            # Only DeleteRecords moved the start before reasons were written down.
            known = Expired(end, DELETE_RECORDS, self.head.policy_version, self.head.published_ms)
        is_mixed = any(start < one.end < end for one in self.head.expired)
        return None if is_mixed and not may_mix else known

    def _add_page(self, ref: PageRef) -> bool:
        """A page that holds nothing any more. HEAD can always take these few."""
        self._add(Garbage(ref.key, None, self._not_before_ms))
        return True

    def _add(self, garbage: Garbage) -> None:
        self._added.append(garbage)
        self._room -= 1
