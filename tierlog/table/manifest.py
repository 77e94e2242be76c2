"""TABLE: which Parquet files stand for which offsets of a partition, as a value.

Files and skips tile `[table_start, converted_end)` by **covered offsets**: a file covers what its
sources cover, whatever rows it has (compaction, control batches and dead letters leave some out).
A file is listed once it lies in the bucket, only behind the last (`file.start == converted_end`),
and is never overwritten. Several become one only with the same covered offsets and the same rows.

Each file names its sources, with the hash of the bytes that were read: where the log lists other
bytes for the same offsets, they are converted again. Merged segments hold their sources' batches
verbatim, so a merge of the log changes nothing here.

Recent files stand in TABLE; older ones in immutable pages whose references stand before them.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tierlog.cold.head import Incarnation, Writer
from tierlog.types import Offset, TimestampMs

FORMAT = 1
SCHEMA_VERSION = 1
"""Of the columns: `schema.py`, which needs pyarrow. This tierlog writes it, and reads up to it."""
FILES_INLINE_MAX = 64
"""Files in TABLE before they move to a page. TABLE is written at every conversion."""
SOURCES_INLINE_MAX = 512
"""Sources of them all, some 100 bytes each when compressed."""
PAGE_FILES_MAX = 256
SOURCES_MAX = 256
"""Of one file: a merge of files stops there."""
PAGES_MAX = 4096
"""A million files: of 128 MiB each, 128 TiB in one partition."""

READ_COMMITTED = "read_committed"
"""Control batches and what was aborted are left out."""

MISSING = "0" * 64
"""In place of a hash: the source was not there to be read."""


class Source(NamedTuple):
    """A segment object that a file was made from."""

    key: str
    sha256: str
    """Of the bytes that were read, which should be the published ones."""


class DeadLetters(NamedTuple):
    """A file of what could not be converted."""

    key: str
    size: int
    sha256: str
    batches: int
    records: int


class Skip(NamedTuple):
    """Offsets `[start, end)` that left the log before they were converted, or that it never had."""

    start: Offset
    end: Offset
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    key: str
    """Relative to the partition's prefix: `pq/...`."""
    version_id: str | None = None
    size: int
    sha256: str
    crc32c: int
    start: Offset
    end: Offset
    """Covered offsets, exclusive."""
    rows: int
    row_groups: int
    plain_bytes: int
    """Of keys and values."""
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
    """Of the rows; both -1 where there are none."""
    control_records: int = 0
    """Records of control batches, left out."""
    dead: tuple[DeadLetters, ...] = ()
    sources: tuple[Source, ...]

    @property
    def dead_records(self) -> int:
        return sum(one.records for one in self.dead)

    @property
    def keys(self) -> tuple[str, ...]:
        """Everything in the bucket that goes with it."""
        return (self.key, *(one.key for one in self.dead))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage:
    """Files that follow each other, in an object of their own."""

    topic_id: str
    partition: int
    files: tuple[TableFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePageRef:
    key: str
    sha256: str
    size: int
    start: Offset
    end: Offset
    files: int
    rows: int
    bytes: int
    """Of its Parquet files."""
    dead_records: int
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
    """Of its rows; both -1 where there are none."""


Row: TypeAlias = TableFile | FilePageRef | Skip
"""What tiles the table."""


class Garbage(NamedTuple):
    """An object that nothing refers to any more; it may be deleted at the earliest then."""

    key: str
    version_id: str | None
    not_before_ms: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    version: int
    """Rises by one with every commit."""
    nonce: str
    """New for every commit: tells whose commit it was, whatever the ETag says."""
    incarnation: Incarnation
    writer: Writer
    """Who committed last: the leader's process, or a job in its name."""
    topic: str
    topic_id: str
    partition: int
    schema: int
    filter: str = READ_COMMITTED
    table_start: Offset
    converted_end: Offset
    head_version: int = 0
    """Of the HEAD that the last conversion was made from."""
    pages: tuple[FilePageRef, ...] = ()
    files: tuple[TableFile, ...] = ()
    skips: tuple[Skip, ...] = ()
    garbage: tuple[Garbage, ...] = ()
    rows: int = 0
    bytes: int = 0
    """Of the files listed, in pages and here."""
    dead_records: int = 0
    published_ms: int = -1


def rows_of(table: Table) -> list[Row]:
    """What tiles the table, by offset."""
    found: list[Row] = [*table.pages, *table.files, *table.skips]
    return sorted(found, key=lambda one: one.start)


def timestamps_of(rows: "list[TableFile] | tuple[TableFile, ...]") -> tuple[int, int]:
    """The least and the greatest of all rows; both -1 where there are none."""
    filled = [one for one in rows if one.rows]
    if not filled:
        return -1, -1
    return min(one.min_timestamp for one in filled), max(one.max_timestamp for one in filled)


def first_table(
    *,
    topic: str,
    topic_id: str,
    partition: int,
    start: Offset,
    writer: Writer,
    incarnation: Incarnation,
    schema: int,
) -> Table:
    """Before anything was converted."""
    return Table(
        version=0,
        nonce="",
        incarnation=incarnation,
        writer=writer,
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        schema=schema,
        table_start=start,
        converted_end=start,
    )
