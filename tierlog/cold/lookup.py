"""The page tree of a manifest: how things are found in it.

Each search is asked with the pages that were read so far and answers with what it found, or with
the one page that must be read next. So the caller's loop is the same everywhere:

    opened: dict[str, Page] = {}
    while isinstance(found := lookup.find(head, offset, opened), PageRef):
        opened[found.key] = codec.open_page(found, await read(found))

Offsets need at most one index page and one leaf page. Times, too, unless the segment with the time
lies before the log start: then the search goes on behind it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from tierlog.cold.entry import Entry
from tierlog.cold.head import Head, PageRef
from tierlog.cold.page import IndexPage
from tierlog.cold.tree import Opened, open_index, open_leaf
from tierlog.types import Offset, TimestampMs

Found = Entry | PageRef | None
"""What was sought, the page to read next, or nothing."""


def find(head: Head, offset: Offset, opened: Opened) -> Found:
    """The segment that holds `offset`, or the first behind it; None at the end of the manifest."""
    for number, refs in enumerate((head.indexes, head.leaves)):
        if refs and offset < refs[-1].next_offset:
            ref = refs[_first_ending_behind(refs, offset)]
            return _in_leaf(ref, offset, opened) if number else _in_index(ref, offset, opened)
    place = _first_ending_behind(head.entries, offset)
    return head.entries[place] if place < len(head.entries) else None


def _in_index(ref: PageRef, offset: Offset, opened: Opened) -> Found:
    if ref.key not in opened:
        return ref
    leaves = open_index(ref, opened).leaves
    return _in_leaf(leaves[_first_ending_behind(leaves, offset)], offset, opened)


def _in_leaf(ref: PageRef, offset: Offset, opened: Opened) -> Found:
    if ref.key not in opened:
        return ref
    entries = open_leaf(ref, opened).entries
    return entries[_first_ending_behind(entries, offset)]


def _first_ending_behind(rows: Sequence[Entry | PageRef], offset: Offset) -> int:
    return bisect_right(rows, offset, key=_end)


def _end(row: Entry | PageRef) -> Offset:
    return row.next_offset


def find_by_time(
    head: Head, timestamp: TimestampMs, opened: Opened, *, start: Offset | None = None
) -> Found:
    """The first segment from `start` (the log start) on with a record at `timestamp` or later."""
    return _first(head, opened, start, lambda row: row.max_timestamp >= timestamp)


def find_latest(head: Head, opened: Opened, *, start: Offset | None = None) -> Found:
    """The first segment from the log start on that has the largest timestamp of all."""
    listed = [row for rows in (head.indexes, head.leaves, head.entries) for row in rows]
    at = head.log_start if start is None else start
    # Rows wholly before the start do not count; what of the first row does is seen once it is open.
    largest = max((row.max_timestamp for row in listed if row.next_offset > at), default=-1)
    found = _first(head, opened, start, lambda row: row.max_timestamp >= largest)
    if found is None and largest >= 0:
        return _largest_behind(head, opened, at)
    return found


def _largest_behind(head: Head, opened: Opened, start: Offset) -> Found:
    """The rare case: the row with the largest timestamp has it before the start.

    From the end, where the largest usually is: rows that are below what was found are not opened.
    """
    best: Entry | None = None
    stack: list[Entry | PageRef] = [*head.indexes, *head.leaves, *head.entries]
    while stack:
        row = stack.pop()
        if row.next_offset <= start or (best and row.max_timestamp < best.max_timestamp):
            continue
        if isinstance(row, Entry):
            best = row  # Of several, the one that comes first.
        elif row.key not in opened:
            return row
        else:
            stack.extend(_rows_of(row, opened))
    return best


def _rows_of(ref: PageRef, opened: Opened) -> Sequence[Entry | PageRef]:
    page = opened[ref.key]
    return page.leaves if isinstance(page, IndexPage) else page.entries


def entries_from(head: Head, start: Offset, opened: Opened) -> Iterator[Entry | PageRef]:
    """Entries in order; where a page is missing, its reference, and there it ends."""
    for row in _rows(head, opened, start, lambda _: True):
        yield row
        if isinstance(row, PageRef):
            return


def _first(
    head: Head, opened: Opened, start: Offset | None, wanted: Callable[[Entry | PageRef], bool]
) -> Found:
    at = head.log_start if start is None else start
    return next(iter(_rows(head, opened, at, wanted)), None)


def _rows(
    head: Head, opened: Opened, start: Offset, wanted: Callable[[Entry | PageRef], bool]
) -> Iterator[Entry | PageRef]:
    """Wanted entries that end behind `start`; references to wanted pages that are not open."""

    def passes(row: Entry | PageRef) -> bool:
        return row.next_offset > start and wanted(row)

    def of_leaves(leaves: Sequence[PageRef]) -> Iterator[Entry | PageRef]:
        for leaf in filter(passes, leaves):
            if leaf.key in opened:
                yield from filter(passes, open_leaf(leaf, opened).entries)
            else:
                yield leaf

    for index in filter(passes, head.indexes):
        if index.key in opened:
            yield from of_leaves(open_index(index, opened).leaves)
        else:
            yield index
    yield from of_leaves(head.leaves)
    yield from filter(passes, head.entries)
