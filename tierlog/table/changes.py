"""The changes of a TABLE, each fit to be tried again on a later one.

A commit whose answer was lost may have happened: so every change first looks whether it is there
already, and answers None if it is. Files are known again by their keys, which are never used twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from tierlog.cold.errors import ColdError
from tierlog.errors import Kind
from tierlog.table import codec
from tierlog.table.keys import page_key
from tierlog.table.manifest import (
    FILES_INLINE_MAX,
    PAGE_FILES_MAX,
    SOURCES_INLINE_MAX,
    FilePage,
    FilePageRef,
    Garbage,
    Skip,
    Table,
    TableFile,
    first_table,
    rows_of,
)
from tierlog.table.publisher import Draft, NewPage

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tierlog.cold.layout import PartitionKeys
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore
    from tierlog.table.publisher import TablePublisher
    from tierlog.types import Offset

GARBAGE_FILES_MAX = 2048
"""In TABLE. Expiry waits for the first of them to be deleted."""


class NotNextFile(ColdError):
    """The table does not end where the file begins: somebody else converted meanwhile."""

    kind: ClassVar[Kind] = Kind.RETRY


class FilesChanged(ColdError):
    """What a file was to stand in the place of is not there any more."""

    kind: ClassVar[Kind] = Kind.RETRY


class Append:
    """List a file behind the last. What lies between is a skip: it left the log, or never was."""

    def __init__(
        self,
        file: TableFile,
        *,
        publisher: TablePublisher,
        store: ObjectStore,
        env: Env,
        head_version: int,
        grace_ms: int,
        schema: int = 1,
    ) -> None:
        self._file = file
        self._publisher = publisher
        self._store = store
        self._env = env
        self._head_version = head_version
        self._grace_ms = grace_ms
        self._schema = schema

    async def __call__(self, table: Table | None) -> Draft | None:
        file = self._file
        if table is None:
            table = self._first()
        if any(one.key == file.key for one in table.files):
            return None
        if table.converted_end > file.start:
            raise NotNextFile(
                f"the table ends at {table.converted_end}, the file begins at {file.start}"
            )
        now_ms = self._env.clock.now_ms()
        skips = table.skips
        if table.converted_end < file.start:
            skips += (Skip(table.converted_end, file.start, now_ms),)
        grown = _with_files(
            replace(table, skips=skips, head_version=self._head_version, schema=self._schema),
            (*table.files, file),
            converted_end=file.end,
        )
        return await sealed(
            grown,
            self._store,
            self._publisher.keys,
            self._env,
            not_before_ms=now_ms + self._grace_ms,
        )

    def _first(self) -> Table:
        place = self._publisher.place
        return first_table(
            topic=place.topic,
            topic_id=place.topic_id,
            partition=place.partition,
            start=self._file.start,
            writer=self._publisher.writer,
            incarnation=self._publisher.incarnation,
            schema=self._schema,
        )


class Replace:
    """List one file in the place of several with the same covered offsets: merged, or converted
    again. They are garbage from then on, without the dead letters that the new one took over."""

    def __init__(
        self, file: TableFile, run: Sequence[TableFile], *, env: Env, grace_ms: int
    ) -> None:
        self._file = file
        self._run = tuple(run)
        self._env = env
        self._grace_ms = grace_ms

    async def __call__(self, table: Table | None) -> Draft | None:
        files = () if table is None else table.files
        if any(one.key == self._file.key for one in files):
            return None
        keys = [one.key for one in files]
        first = self._run[0].key
        place = keys.index(first) if first in keys else 0
        if table is None or files[place : place + len(self._run)] != self._run:
            raise FilesChanged(f"[{self._file.start}, {self._file.end}) is not there as it was")
        after = place + len(self._run)
        not_before_ms = self._env.clock.now_ms() + self._grace_ms
        garbage = _garbage(self._run, not_before_ms, spared=self._file.keys)
        changed = replace(table, garbage=(*table.garbage, *garbage))
        return Draft(
            table=_with_files(changed, (*files[:place], self._file, *files[after:])),
        )


class ReplaceInPage:
    """The same for one file that a page lists: the page is written anew."""

    def __init__(
        self,
        file: TableFile,
        old: TableFile,
        *,
        keys: PartitionKeys,
        store: ObjectStore,
        env: Env,
        grace_ms: int,
    ) -> None:
        self._file = file
        self._old = old
        self._keys = keys
        self._store = store
        self._env = env
        self._grace_ms = grace_ms

    async def __call__(self, table: Table | None) -> Draft | None:
        start, pages = self._file.start, () if table is None else table.pages
        ref = next((one for one in pages if one.start <= start < one.end), None)
        page = None if ref is None else await _read(self._store, self._keys, ref)
        if page is not None and self._file in page.files:
            return None
        if table is None or ref is None or page is None or self._old not in page.files:
            raise FilesChanged(f"[{start}, {self._file.end}) is not there as it was")
        files = tuple(self._file if one == self._old else one for one in page.files)
        fresh, made = await _new_page(replace(page, files=files), self._env)
        not_before_ms = self._env.clock.now_ms() + self._grace_ms
        garbage = _garbage([self._old], not_before_ms, spared=self._file.keys)
        garbage.append(Garbage(ref.key, None, not_before_ms, ref.size))
        changed = replace(
            table,
            pages=tuple(fresh if one == ref else one for one in pages),
            garbage=(*table.garbage, *garbage),
        )
        return Draft(table=_with_files(changed, table.files), pages=(made,))


class Expire:
    """What lies wholly below the log's start leaves the table: a bounded piece. `is_done` says
    whether that was all."""

    def __init__(
        self,
        log_start: Offset,
        *,
        keys: PartitionKeys,
        store: ObjectStore,
        env: Env,
        grace_ms: int,
    ) -> None:
        self._log_start = log_start
        self._keys = keys
        self._store = store
        self._env = env
        self._grace_ms = grace_ms
        self.is_done = True

    async def __call__(self, table: Table | None) -> Draft | None:
        if table is None:
            return None
        not_before_ms = self._env.clock.now_ms() + self._grace_ms
        gone: list[TableFile] = []
        pages: list[FilePageRef] = []
        skips: list[Skip] = []
        self.is_done = True
        for row in rows_of(table):
            if row.end > self._log_start:
                break
            if len(table.garbage) + len(gone) > GARBAGE_FILES_MAX:
                self.is_done = False
                break
            if isinstance(row, FilePageRef):
                pages.append(row)
                gone += (await _read(self._store, self._keys, row)).files
            elif isinstance(row, TableFile):
                gone.append(row)
            else:
                skips.append(row)
        if not (gone or skips):
            return None
        garbage = [
            *_garbage(gone, not_before_ms),
            *(Garbage(one.key, None, not_before_ms, one.size) for one in pages),
        ]
        left = replace(
            table,
            pages=tuple(one for one in table.pages if one not in pages),
            skips=tuple(one for one in table.skips if one not in skips),
            garbage=(*table.garbage, *garbage),
        )
        keys = {one.key for one in gone}
        left = _with_files(left, tuple(one for one in table.files if one.key not in keys))
        start = next((row.start for row in rows_of(left)), left.converted_end)
        return Draft(table=replace(left, table_start=start))


class Collected:
    """These objects are deleted: TABLE forgets them."""

    def __init__(self, keys: Collection[str]) -> None:
        self._keys = frozenset(keys)

    async def __call__(self, table: Table | None) -> Draft | None:
        if table is None:
            return None
        left = tuple(one for one in table.garbage if one.key not in self._keys)
        if len(left) == len(table.garbage):
            return None
        return Draft(table=replace(table, garbage=left))


# Pages


async def sealed(
    table: Table, store: ObjectStore, keys: PartitionKeys, env: Env, *, not_before_ms: int
) -> Draft:
    """Older files move to a page where TABLE has too many; the last page is filled up first."""
    moving = _to_seal(table)
    if not moving:
        return Draft(table=table)
    pages, garbage = table.pages, table.garbage
    if pages and pages[-1].end == moving[0].start and pages[-1].files < PAGE_FILES_MAX:
        before = await _read(store, keys, pages[-1])
        moving = (*before.files, *moving)[:PAGE_FILES_MAX]
        garbage += (Garbage(pages[-1].key, None, not_before_ms, pages[-1].size),)
        pages = pages[:-1]
    page = FilePage(topic_id=table.topic_id, partition=table.partition, files=moving)
    fresh, made = await _new_page(page, env)
    moved = {one.key for one in moving}
    left = replace(
        table,
        pages=(*pages, fresh),
        files=tuple(one for one in table.files if one.key not in moved),
        garbage=garbage,
    )
    return Draft(table=left, pages=(made,))


async def _new_page(page: FilePage, env: Env) -> tuple[FilePageRef, NewPage]:
    """Under a key that nobody has used."""
    data = await env.tasks.in_thread(codec.encode_page, page)
    key = page_key(start=page.files[0].start, attempt=int.from_bytes(env.rng.randbytes(8)))
    return codec.refer(page, key=key, data=data), NewPage(key, data)


def _to_seal(table: Table) -> tuple[TableFile, ...]:
    """The older half, where there are too many; without a skip inside."""
    files = table.files
    sources = sum(len(one.sources) for one in files)
    if len(files) <= FILES_INLINE_MAX and sources <= SOURCES_INLINE_MAX:
        return ()
    run = files[: max(len(files) // 2, 1)]
    for place in range(1, len(run)):
        if run[place].start != run[place - 1].end:
            return run[:place]
    return run


async def _read(store: ObjectStore, keys: PartitionKeys, ref: FilePageRef) -> FilePage:
    return codec.open_page(ref, (await store.get(keys.full(ref.key))).data)


# Parts


def _with_files(
    table: Table, files: tuple[TableFile, ...], *, converted_end: Offset | None = None
) -> Table:
    """With these in place of the ones listed in TABLE itself, and the totals."""
    listed: tuple[TableFile | FilePageRef, ...] = (*table.pages, *files)
    return replace(
        table,
        files=files,
        converted_end=table.converted_end if converted_end is None else converted_end,
        rows=sum(one.rows for one in listed),
        bytes=sum(one.bytes for one in table.pages) + sum(one.size for one in files),
        dead_records=sum(one.dead_records for one in listed),
    )


def _garbage(
    files: Sequence[TableFile], not_before_ms: int, *, spared: Collection[str] = ()
) -> list[Garbage]:
    found = [
        Garbage(one.key, one.version_id, not_before_ms, one.size)
        for one in files
        if one.key not in spared
    ]
    found += [
        Garbage(dead.key, None, not_before_ms, dead.size)
        for one in files
        for dead in one.dead
        if dead.key not in spared
    ]
    return found
