"""TABLE and its pages as bytes, and back. `docs/format/table.md` has every field.

Gzipped canonical JSON, as the other manifests are; decoding believes nothing, refuses unknown
fields and a newer format or schema, and checks the invariants that a reader computes with.
"""

from hashlib import sha256

from tierlog.cold import canonical
from tierlog.cold.entry_codec import U32_MAX
from tierlog.cold.errors import ColdCorrupt, InvariantBroken, NewerFormat
from tierlog.cold.fields import INTEGER_MAX, Fields
from tierlog.cold.head import Incarnation, Writer
from tierlog.cold.layout import KEY_CHARACTERS_MAX, parse_segment_key
from tierlog.table.keys import parse_file_key, parse_page_key
from tierlog.table.manifest import (
    FORMAT,
    PAGE_FILES_MAX,
    PAGES_MAX,
    SCHEMA_VERSION,
    SOURCES_MAX,
    DeadLetters,
    FilePage,
    FilePageRef,
    Garbage,
    Skip,
    Source,
    Table,
    TableFile,
    timestamps_of,
)
from tierlog.types import Bytes, LeaderEpoch, Offset, TimestampMs

STORED_BYTES_MAX = 8 << 20
PLAIN_BYTES_MAX = 16 << 20
"""A page of 256 files with 256 sources each has 11 MB."""
PARTITIONS_MAX = 2**31 - 1
FILES_MAX = 1024
SKIPS_MAX = 1024
GARBAGE_MAX = 8192
DEAD_MAX = SOURCES_MAX
LEAST = -INTEGER_MAX - 1

# TABLE


def encode_table(table: Table) -> bytes:
    return _packed(table_value(table))


def table_value(table: Table) -> dict[str, object]:
    return {
        "bytes": table.bytes,
        "converted_end": table.converted_end,
        "dead_records": table.dead_records,
        "files": [file_value(one) for one in table.files],
        "filter": table.filter,
        "format": FORMAT,
        "garbage": [one._asdict() for one in table.garbage],
        "head_version": table.head_version,
        "incarnation": table.incarnation._asdict(),
        "kind": "table",
        "nonce": table.nonce,
        "pages": [ref_value(one) for one in table.pages],
        "partition": table.partition,
        "published_ms": table.published_ms,
        "rows": table.rows,
        "schema": table.schema,
        "skips": [one._asdict() for one in table.skips],
        "table_start": table.table_start,
        "topic": table.topic,
        "topic_id": table.topic_id,
        "version": table.version,
        "writer": table.writer._asdict(),
    }


def decode_table(data: Bytes, *, key: str) -> Table:
    fields = _opened(data, key=key, kind="table")
    schema = fields.integer("schema", 1)
    if schema > SCHEMA_VERSION:
        raise NewerFormat(key, found=schema, known=SCHEMA_VERSION)
    incarnation, writer = fields.inner("incarnation"), fields.inner("writer")
    start = fields.integer("table_start")
    table = Table(
        version=fields.integer("version"),
        nonce=fields.text("nonce"),
        incarnation=Incarnation(incarnation.integer("number"), incarnation.text("id")),
        writer=Writer(LeaderEpoch(writer.integer("leader_epoch")), writer.text("process")),
        topic=fields.text("topic"),
        topic_id=fields.text("topic_id"),
        partition=fields.integer("partition", 0, PARTITIONS_MAX),
        schema=schema,
        filter=fields.text("filter"),
        table_start=Offset(start),
        converted_end=Offset(fields.integer("converted_end", start)),
        head_version=fields.integer("head_version"),
        pages=tuple(read_ref(one) for one in fields.inners("pages", PAGES_MAX)),
        files=tuple(read_file(one) for one in fields.inners("files", FILES_MAX)),
        skips=tuple(_read_skip(one) for one in fields.inners("skips", SKIPS_MAX)),
        garbage=tuple(_read_garbage(one) for one in fields.inners("garbage", GARBAGE_MAX)),
        rows=fields.integer("rows"),
        bytes=fields.integer("bytes"),
        dead_records=fields.integer("dead_records"),
        published_ms=fields.integer("published_ms", -1),
    )
    for one in (fields, incarnation, writer):
        one.close()
    return table


# Files


def file_value(file: TableFile) -> dict[str, object]:
    value: dict[str, object] = {
        "control_records": file.control_records,
        "crc32c": file.crc32c,
        "end": file.end,
        "key": file.key,
        "max_timestamp": file.max_timestamp,
        "min_timestamp": file.min_timestamp,
        "plain_bytes": file.plain_bytes,
        "row_groups": file.row_groups,
        "rows": file.rows,
        "sha256": file.sha256,
        "size": file.size,
        "sources": [list(one) for one in file.sources],
        "start": file.start,
        "version_id": file.version_id,
    }
    if file.dead:
        value["dead"] = [one._asdict() for one in file.dead]
    return value


def read_file(fields: Fields) -> TableFile:
    start = fields.integer("start")
    file = TableFile(
        key=fields.text("key", KEY_CHARACTERS_MAX),
        version_id=fields.maybe_text("version_id"),
        size=fields.integer("size", 1),
        sha256=fields.digest("sha256"),
        crc32c=fields.integer("crc32c", 0, U32_MAX),
        start=Offset(start),
        end=Offset(fields.integer("end", start + 1)),
        rows=fields.integer("rows"),
        row_groups=fields.integer("row_groups"),
        plain_bytes=fields.integer("plain_bytes"),
        min_timestamp=TimestampMs(fields.integer("min_timestamp", LEAST)),
        max_timestamp=TimestampMs(fields.integer("max_timestamp", LEAST)),
        control_records=fields.integer("control_records"),
        dead=_read_all_dead(fields),
        sources=_read_sources(fields),
    )
    fields.close()
    name = parse_file_key(file.key)
    if name is None or name.is_dead or (name.start, name.end) != (file.start, file.end):
        fields.refuse("key", "is not that of such a file")
    return file


def _read_all_dead(fields: Fields) -> tuple[DeadLetters, ...]:
    if not fields.has("dead"):
        return ()
    return tuple(_read_dead(one) for one in fields.inners("dead", DEAD_MAX))


def _read_dead(fields: Fields) -> DeadLetters:
    dead = DeadLetters(
        fields.text("key", KEY_CHARACTERS_MAX),
        fields.integer("size", 1),
        fields.digest("sha256"),
        fields.integer("batches", 1),
        fields.integer("records"),
    )
    fields.close()
    name = parse_file_key(dead.key)
    if name is None or not name.is_dead:
        fields.refuse("key", "is not that of dead letters")
    return dead


def _read_sources(fields: Fields) -> tuple[Source, ...]:
    found = []
    for item in fields.items("sources", SOURCES_MAX, 1):
        if not isinstance(item, list) or len(item) != 2:
            fields.refuse("sources", "is not a list of keys and hashes")
        key, digest = item
        if not isinstance(key, str) or parse_segment_key(key) is None:
            fields.refuse("sources", "has what is not the key of a segment")
        if not isinstance(digest, str) or len(digest) != 64:
            fields.refuse("sources", "has what is not a SHA-256 in hexadecimal digits")
        found.append(Source(key, digest))
    return tuple(found)


def _read_skip(fields: Fields) -> Skip:
    start = fields.integer("start")
    end = fields.integer("end", start + 1)
    skip = Skip(Offset(start), Offset(end), fields.integer("time_ms", -1))
    fields.close()
    return skip


def _read_garbage(fields: Fields) -> Garbage:
    garbage = Garbage(
        fields.text("key", KEY_CHARACTERS_MAX),
        fields.maybe_text("version_id"),
        fields.integer("not_before_ms", -1),
        fields.integer("size"),
    )
    fields.close()
    if parse_file_key(garbage.key) is None and parse_page_key(garbage.key) is None:
        fields.refuse("key", "is not that of an object of a table")
    return garbage


# Pages


def encode_page(page: FilePage) -> bytes:
    return _packed(
        {
            "files": [file_value(one) for one in page.files],
            "format": FORMAT,
            "kind": "table-page",
            "partition": page.partition,
            "topic_id": page.topic_id,
        }
    )


def open_page(ref: FilePageRef, data: Bytes) -> FilePage:
    """The page that `ref` refers to; `ColdCorrupt` if these are not its bytes."""
    if len(data) != ref.size or sha256(data).hexdigest() != ref.sha256:
        raise ColdCorrupt(ref.key, "its bytes are not the published ones")
    fields = _opened(data, key=ref.key, kind="table-page")
    page = FilePage(
        topic_id=fields.text("topic_id"),
        partition=fields.integer("partition", 0, PARTITIONS_MAX),
        files=tuple(read_file(one) for one in fields.inners("files", PAGE_FILES_MAX)),
    )
    fields.close()
    if not page.files or refer(page, key=ref.key, data=bytes(data)) != ref:
        raise ColdCorrupt(ref.key, "its content is not what its reference says")
    return page


def refer(page: FilePage, *, key: str, data: bytes) -> FilePageRef:
    earliest, latest = timestamps_of(page.files)
    return FilePageRef(
        key=key,
        sha256=sha256(data).hexdigest(),
        size=len(data),
        start=page.files[0].start,
        end=page.files[-1].end,
        files=len(page.files),
        rows=sum(one.rows for one in page.files),
        bytes=sum(one.size for one in page.files),
        dead_records=sum(one.dead_records for one in page.files),
        min_timestamp=TimestampMs(earliest),
        max_timestamp=TimestampMs(latest),
    )


def ref_value(ref: FilePageRef) -> dict[str, object]:
    return {name: getattr(ref, name) for name in FilePageRef.__slots__}


def read_ref(fields: Fields) -> FilePageRef:
    start = fields.integer("start")
    ref = FilePageRef(
        key=fields.text("key", KEY_CHARACTERS_MAX),
        sha256=fields.digest("sha256"),
        size=fields.integer("size", 1, STORED_BYTES_MAX),
        start=Offset(start),
        end=Offset(fields.integer("end", start + 1)),
        files=fields.integer("files", 1),
        rows=fields.integer("rows"),
        bytes=fields.integer("bytes"),
        dead_records=fields.integer("dead_records"),
        min_timestamp=TimestampMs(fields.integer("min_timestamp", LEAST)),
        max_timestamp=TimestampMs(fields.integer("max_timestamp", LEAST)),
    )
    fields.close()
    name = parse_page_key(ref.key)
    if name is None or name.start != start:
        fields.refuse("key", f"is not that of a page that begins at {start}")
    return ref


def _packed(value: dict[str, object]) -> bytes:
    plain = canonical.to_bytes(value)
    if len(plain) > PLAIN_BYTES_MAX:
        raise InvariantBroken("bounds", f"{len(plain)} bytes, readers take {PLAIN_BYTES_MAX}")
    return canonical.compress(plain)


def _opened(data: Bytes, *, key: str, kind: str) -> Fields:
    if len(data) > STORED_BYTES_MAX:
        raise ColdCorrupt(key, f"it has {len(data)} bytes, at most {STORED_BYTES_MAX} are read")
    plain = canonical.decompress(data, key=key, size_max=PLAIN_BYTES_MAX)
    fields = Fields(canonical.from_bytes(plain, key=key), key=key, place=kind)
    found = fields.integer("format", 1)
    if found > FORMAT:
        raise NewerFormat(key, found=found, known=FORMAT)
    if fields.text("kind") != kind:
        fields.refuse("kind", f"is not {kind}")
    return fields
