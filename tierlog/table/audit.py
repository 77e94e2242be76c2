"""Audits the table of a partition from the bucket alone: TABLE, its pages, and its files.

Files must be there with the size that was published: one LIST for each thousand. A deep audit reads
them to their end and compares their SHA-256. What is found while TABLE is replaced is looked at
again. Losing a table loses nothing: the log is the truth.
"""

from __future__ import annotations

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

READ_BYTES = 8 << 20
ROUNDS_MAX = 3


class _Object(NamedTuple):
    """One that TABLE lists: a file, or its dead letters."""

    key: str
    version_id: str | None
    size: int
    sha256: str
    file: TableFile


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
        found = [await self._look(one, sizes) for file in files for one in _objects(file)]
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

    async def _look(self, one: _Object, sizes: dict[str, int]) -> Finding | None:
        size = sizes.get(one.key)
        try:
            if one.version_id is not None:  # A listing has none.
                stat = await self._store.head(self._full(one), version_id=one.version_id)
                size = stat.size
            if size is None:
                return self._complaint(one, Kind.FILE_MISSING, "there is none")
            if size != one.size:
                return self._complaint(one, Kind.FILE_WRONG, f"{size} bytes")
            return await self._read(one) if self._settings.is_deep else None
        except NoSuchObject:
            return self._complaint(one, Kind.FILE_MISSING, "there is none")

    async def _read(self, one: _Object) -> Finding | None:
        """As `read_agreed`: the same wrong bytes twice are damage."""
        seen: set[str] = set()
        for _ in range(READS_MAX):
            digest = await self._digest(one)
            if digest == one.sha256 or digest in seen:
                self._read_bytes += one.size
                self._settings.on_bytes(one.size)
                if digest == one.sha256:
                    return None
                return self._complaint(one, Kind.FILE_WRONG, f"SHA-256 {digest}")
            seen.add(digest)
        raise differs(self._full(one))

    async def _digest(self, one: _Object) -> str:
        digest = sha256()
        for at in range(0, one.size, READ_BYTES):
            span = Span(Position(at), Position(min(at + READ_BYTES, one.size)))
            if self._settings.before_read is not None:
                await self._settings.before_read(span.size)
            got = await self._store.get(self._full(one), span=span, version_id=one.version_id)
            await self._tasks.in_thread(digest.update, got.data)
        return digest.hexdigest()

    def _full(self, one: _Object) -> str:
        return self._keys.full(one.key)

    def _complaint(self, one: _Object, kind: Kind, found: str) -> Finding:
        due = f"{one.size} bytes, SHA-256 {one.sha256}"
        return _finding(self._subject, kind, self._full(one), due, found, one.file)


def _objects(file: TableFile) -> list[_Object]:
    found = [_Object(file.key, file.version_id, file.size, file.sha256, file)]
    found += (_Object(one.key, None, one.size, one.sha256, file) for one in file.dead)
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
