"""Finding files of a table by offset and time, for whoever reads it.

HEAD first, then TABLE: a file that TABLE lists was converted from what HEAD listed before, so the
TABLE is at least as far as that HEAD says it may be. A reader takes `[log_start, ...)` of HEAD from
the files that overlap it, and what lies behind `converted_end` from the segments.

`files_between` is pure and asks for the pages that it needs, as `cold.lookup` does; `TableReader`
asks the store for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierlog.objectstore.errors import NoSuchObject
from tierlog.table.codec import decode_table, open_page
from tierlog.table.invariants import check
from tierlog.table.manifest import FilePage, FilePageRef, Table, TableFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tierlog.cold.layout import PartitionKeys
    from tierlog.objectstore.port import ObjectStore
    from tierlog.types import Offset, TimestampMs


class Times(NamedTuple):
    """Records from `start` on and before `end`, in milliseconds; None: no bound."""

    start: TimestampMs | None = None
    end: TimestampMs | None = None

    def may_hold(self, row: TableFile | FilePageRef) -> bool:
        if not row.rows:
            return False
        is_late = self.start is None or row.max_timestamp >= self.start
        return is_late and (self.end is None or row.min_timestamp < self.end)


ALL_TIMES = Times()


def files_between(
    table: Table,
    start: Offset,
    end: Offset,
    opened: Mapping[str, FilePage],
    *,
    times: Times | None = None,
) -> list[TableFile] | FilePageRef:
    """Files whose covered offsets overlap `[start, end)`, in order; or the page to open next.

    With `times`, those without a row of that time are left out; without, also files without rows
    are there.
    """
    found: list[TableFile] = []
    for ref in _overlapping(table.pages, start, end, times):
        assert isinstance(ref, FilePageRef)
        if ref.key not in opened:
            return ref
        found += _files(opened[ref.key].files, start, end, times)
    found += _files(table.files, start, end, times)
    return found


def _files(
    files: Iterable[TableFile], start: Offset, end: Offset, times: Times | None
) -> Iterator[TableFile]:
    for one in _overlapping(files, start, end, times):
        assert isinstance(one, TableFile)
        yield one


def _overlapping(
    rows: Iterable[TableFile | FilePageRef], start: Offset, end: Offset, times: Times | None
) -> Iterator[TableFile | FilePageRef]:
    for row in rows:
        is_within = max(row.start, start) < min(row.end, end)
        if is_within and (times is None or times.may_hold(row)):
            yield row


class TableReader:
    """One TABLE, pinned: what others commit later is not seen."""

    def __init__(self, store: ObjectStore, keys: PartitionKeys, table: Table) -> None:
        self.table = table
        self._store = store
        self._keys = keys
        self._opened: dict[str, FilePage] = {}

    async def files(
        self, start: Offset, end: Offset, *, times: Times | None = None
    ) -> list[TableFile]:
        """As `files_between`. Raises `ColdCorrupt`, and what the store does."""
        while isinstance(
            found := files_between(self.table, start, end, self._opened, times=times), FilePageRef
        ):
            got = await self._store.get(self._keys.full(found.key))
            self._opened[found.key] = open_page(found, got.data)
        return found

    async def all_files(self) -> list[TableFile]:
        return await self.files(self.table.table_start, self.table.converted_end)


async def read_table(store: ObjectStore, keys: PartitionKeys) -> Table | None:
    """The TABLE of a partition, checked; None if nothing was converted yet."""
    try:
        got = await store.get(keys.table)
    except NoSuchObject:
        return None
    table = decode_table(got.data, key=keys.table)
    check(table, previous=None)
    return table


async def open_table(store: ObjectStore, keys: PartitionKeys) -> TableReader | None:
    table = await read_table(store, keys)
    return None if table is None else TableReader(store, keys, table)
