"""Audits the table of a partition from the bucket alone: TABLE, its pages, and its files.

Files must be there with the size that was published: one LIST for each thousand. A deep audit reads
them to their end, compares their SHA-256, and asks their footers for the number of rows. What is
found while TABLE is replaced is looked at again. Losing a table loses nothing: the log is the
truth.

`ObjectReader` is the deep part alone, for whoever spreads the objects over machines.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from tierlog.cold import canonical
from tierlog.cold.agreed import READS_MAX, WRONG, differs, read_agreed
from tierlog.cold.audit import Finding, Kind, TableAudit
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import Span
from tierlog.table.codec import decode_table
from tierlog.table.invariants import check
from tierlog.table.keys import FILES
from tierlog.table.reading import TableReader
from tierlog.types import Position

if TYPE_CHECKING:
    from tierlog.cold.audit import Subject
    from tierlog.cold.audit_partition import AuditSettings
    from tierlog.cold.layout import PartitionKeys
    from tierlog.env import Tasks
    from tierlog.objectstore.port import Got, ObjectStore
    from tierlog.table.manifest import Table, TableFile
    from tierlog.types import Bytes

READ_BYTES = 8 << 20
TAIL_BYTES = 64 << 10
"""Of a Parquet file, read for its footer: as much as most need."""
ROUNDS_MAX = 3


class TableObject(NamedTuple):
    """One that TABLE lists: a file, or its dead letters."""

    key: str
    version_id: str | None
    size: int
    sha256: str
    file: TableFile

    @property
    def is_dead(self) -> bool:
        return self.key != self.file.key


class ObjectReader:
    """Reads objects of a table whole, and says what is wrong with them."""

    def __init__(
        self,
        store: ObjectStore,
        tasks: Tasks,
        keys: PartitionKeys,
        subject: Subject,
        settings: AuditSettings,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._keys = keys
        self._subject = subject
        self._settings = settings

    async def stat_and_read(self, one: TableObject) -> Finding | None:
        """Of an object that nobody has listed."""
        try:
            stat = await self._store.head(self._full(one), version_id=one.version_id)
            return self.size_wrong(one, stat.size) or await self.read(one)
        except NoSuchObject:
            return self.missing(one)

    def missing(self, one: TableObject) -> Finding:
        return self._complaint(one, Kind.FILE_MISSING, "there is none")

    def size_wrong(self, one: TableObject, size: int) -> Finding | None:
        return None if size == one.size else self._complaint(one, Kind.FILE_WRONG, f"{size} bytes")

    async def read(self, one: TableObject) -> Finding | None:
        """As `read_agreed`: the same wrong bytes twice are damage."""
        seen: set[str] = set()
        for _ in range(READS_MAX):
            digest = await self._digest(one)
            if digest == one.sha256 or digest in seen:
                self._settings.on_bytes(one.size)
                if digest == one.sha256:
                    return await self._rows_wrong(one)
                return self._complaint(one, Kind.FILE_WRONG, f"SHA-256 {digest}")
            seen.add(digest)
        raise differs(self._full(one))

    async def _digest(self, one: TableObject) -> str:
        digest = sha256()
        for at in range(0, one.size, READ_BYTES):
            data = await self._get(one, at, min(at + READ_BYTES, one.size))
            await self._tasks.in_thread(digest.update, data)
        return digest.hexdigest()

    async def _rows_wrong(self, one: TableObject) -> Finding | None:
        """TABLE says how many there are, and the file whose bytes are those of TABLE may not."""
        if one.is_dead:
            return None
        tail = await self._get(one, max(0, one.size - TAIL_BYTES), one.size)
        footer = int.from_bytes(tail[-8:-4], "little") + 8
        if len(tail) < footer <= one.size:
            tail = await self._get(one, one.size - footer, one.size)
        try:
            rows = await self._tasks.in_thread(_rows_in, tail)
        except (ValueError, OSError) as error:  # As Arrow says it.
            return self._complaint(one, Kind.FILE_WRONG, f"a footer that cannot be read: {error}")
        if rows == one.file.rows:
            return None
        return self._complaint(one, Kind.FILE_WRONG, f"{rows} rows instead of {one.file.rows}")

    async def _get(self, one: TableObject, start: int, end: int) -> Bytes:
        span = Span(Position(start), Position(end))
        if self._settings.before_read is not None:
            await self._settings.before_read(span.size)
        got = await self._store.get(self._full(one), span=span, version_id=one.version_id)
        return got.data

    def _full(self, one: TableObject) -> str:
        return self._keys.full(one.key)

    def _complaint(self, one: TableObject, kind: Kind, found: str) -> Finding:
        due = f"{one.size} bytes, SHA-256 {one.sha256}"
        return _finding(self._subject, kind, self._full(one), due, found, one.file)


def _rows_in(tail: Bytes) -> int:
    """Of a Parquet file, as its end says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: int = pq.read_metadata(pa.BufferReader(tail)).num_rows
    return rows


class TableAuditor:
    """Implements `TableCheck`."""

    def __init__(self, store: ObjectStore, tasks: Tasks) -> None:
        self._store = store
        self._tasks = tasks

    async def bytes(self, keys: PartitionKeys) -> int:
        """As TABLE says; 0 where there is none that can be read."""
        try:
            return (await self._table(keys)).bytes
        except (NoSuchObject, *WRONG):
            return 0

    async def run(
        self, keys: PartitionKeys, subject: Subject, settings: AuditSettings
    ) -> TableAudit:
        for _ in range(ROUNDS_MAX):
            try:
                table = await self._table(keys)
            except NoSuchObject:
                return TableAudit()
            except WRONG as fault:
                due, found = "a manifest that holds together", fault.reason
                return _wrong(_finding(subject, Kind.TABLE_WRONG, keys.table, due, found))
            audit = await _Round(self._store, self._tasks, keys, subject, settings, table).run()
            if not audit.findings or await self._version(keys) == table.version:
                break
        return audit

    async def _table(self, keys: PartitionKeys) -> Table:
        def opened(got: Got) -> Table:
            canonical.require_plain(got.data, key=keys.table)
            table = decode_table(got.data, key=keys.table)
            check(table, previous=None)
            return table

        return await read_agreed(self._store, keys.table, opened, self._tasks)

    async def _version(self, keys: PartitionKeys) -> int:
        try:
            return (await self._table(keys)).version
        except (NoSuchObject, *WRONG):
            return -1


class _Round:
    """One look at one TABLE."""

    def __init__(
        self,
        store: ObjectStore,
        tasks: Tasks,
        keys: PartitionKeys,
        subject: Subject,
        settings: AuditSettings,
        table: Table,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._keys = keys
        self._subject = subject
        self._settings = settings
        self._table = table
        self._read_bytes = 0

        def on_bytes(size: int) -> None:
            self._read_bytes += size
            settings.on_bytes(size)

        counting = replace(settings, on_bytes=on_bytes)
        self._reader = ObjectReader(store, tasks, keys, subject, counting)

    async def run(self) -> TableAudit:
        keys, table, subject = self._keys, self._table, self._subject
        if (table.topic_id, table.partition) != (subject.topic_id, subject.partition):
            due = f"the table of {subject.topic_id}/{subject.partition}"
            other = f"that of {table.topic_id}/{table.partition}"
            return _wrong(_finding(subject, Kind.TABLE_WRONG, keys.table, due, other))
        try:
            files = await TableReader(self._store, keys, table).all_files()
        except (NoSuchObject, *WRONG) as fault:
            due = "pages as TABLE refers to them"
            return _wrong(_finding(subject, Kind.TABLE_WRONG, keys.table, due, str(fault)))
        sizes = await self._sizes()
        found = [await self._look(one, sizes) for file in files for one in objects_of(file)]
        return TableAudit(
            files=len(files),
            bytes=table.bytes,
            read_bytes=self._read_bytes,
            findings=tuple(one for one in found if one is not None),
        )

    async def _sizes(self) -> dict[str, int]:
        return {
            stat.key.removeprefix(self._keys.prefix): stat.size
            async for page in self._store.list(self._keys.prefix + FILES)
            for stat in page
        }

    async def _look(self, one: TableObject, sizes: dict[str, int]) -> Finding | None:
        size = sizes.get(one.key)
        try:
            if one.version_id is not None:  # A listing has none.
                full = self._keys.full(one.key)
                size = (await self._store.head(full, version_id=one.version_id)).size
            if size is None:
                return self._reader.missing(one)
            wrong = self._reader.size_wrong(one, size)
            if wrong is not None or not self._settings.is_deep:
                return wrong
            return await self._reader.read(one)
        except NoSuchObject:
            return self._reader.missing(one)


def objects_of(file: TableFile) -> list[TableObject]:
    found = [TableObject(file.key, file.version_id, file.size, file.sha256, file)]
    found += (TableObject(one.key, None, one.size, one.sha256, file) for one in file.dead)
    return found


def _wrong(finding: Finding) -> TableAudit:
    return TableAudit(findings=(finding,))


def _finding(
    subject: Subject,
    kind: Kind,
    key: str,
    expected: str,
    found: str,
    file: TableFile | None = None,
) -> Finding:
    return Finding(
        kind=kind,
        key=key,
        expected=expected,
        found=found,
        topic=subject.topic,
        partition=subject.partition,
        start=None if file is None else file.start,
        end=None if file is None else file.end,
    )
