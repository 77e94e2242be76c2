"""HEAD and pages as bytes, and back. `docs/format/manifest.md` has every field.

Gzipped canonical JSON. Decoding believes nothing: sizes, counts and decompression are bounded, each
field is checked (`fields.py`), a newer format is refused. `open_page` also compares the bytes with
the reference that led to them; who reads HEAD has nothing to compare it with but its invariants.
"""

from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from tierlog.cold import canonical, chain
from tierlog.cold.entry import Entry
from tierlog.cold.entry_codec import entry_value, read_entry, read_epochs
from tierlog.cold.errors import ColdCorrupt, InvariantBroken, NewerFormat
from tierlog.cold.fields import Fields
from tierlog.cold.garbage_codec import (
    garbage_value,
    leaving_value,
    read_expired,
    read_garbage,
    read_garbage_end,
    read_policy,
)
from tierlog.cold.head import (
    FORMAT,
    INDEX_REFS_MAX,
    LEAF_ENTRIES_MAX,
    Head,
    Hold,
    Incarnation,
    PageRef,
    Skip,
    Writer,
)
from tierlog.cold.layout import KEY_CHARACTERS_MAX, parse_page_key
from tierlog.cold.page import IndexPage, LeafPage, Page, Row, Rows
from tierlog.types import Bytes, LeaderEpoch, Offset, TimestampMs

STORED_BYTES_MAX = 4 << 20
PLAIN_BYTES_MAX = 4 << 20
"""A full leaf page has 280 kB. Parsed JSON may take twenty times its bytes in memory."""

LISTED_MAX = 1024
"""Entries, references, holds, skips in HEAD: more than any writer leaves there."""
GARBAGE_MAX = 4096
PARTITIONS_MAX = 2**31 - 1

# HEAD


def encode_head(head: Head) -> bytes:
    return _packed(head_value(head))


def decode_head(data: Bytes, *, key: str) -> Head:
    fields = _opened(data, key=key, kinds=("head",))
    incarnation, writer = fields.inner("incarnation"), fields.inner("writer")
    head = Head(
        version=fields.integer("version"),
        nonce=fields.text("nonce"),
        incarnation=Incarnation(incarnation.integer("number"), incarnation.text("id")),
        writer=Writer(LeaderEpoch(writer.integer("leader_epoch")), writer.text("process")),
        topic=fields.text("topic"),
        topic_id=fields.text("topic_id"),
        partition=fields.integer("partition", 0, PARTITIONS_MAX),
        partition_count=fields.integer("partition_count", 0, PARTITIONS_MAX),
        log_start=Offset(fields.integer("log_start")),
        next_offset=Offset(fields.integer("next_offset")),
        leader_epochs=read_epochs(fields),
        policy_version=fields.integer("policy_version"),
        policy=read_policy(fields),
        holds=tuple(_read_hold(one) for one in fields.inners("holds", LISTED_MAX)),
        records=fields.integer("records"),
        bytes=fields.integer("bytes"),
        entries=tuple(read_entry(one) for one in fields.inners("entries", LISTED_MAX)),
        leaves=tuple(read_ref(one) for one in fields.inners("leaves", LISTED_MAX)),
        indexes=tuple(read_ref(one) for one in fields.inners("indexes", LISTED_MAX)),
        garbage=tuple(read_garbage(one) for one in fields.inners("garbage", GARBAGE_MAX)),
        garbage_end=read_garbage_end(fields),
        expired=read_expired(fields),
        skips=tuple(_read_skip(one) for one in fields.inners("skips", LISTED_MAX)),
        chain_anchor=fields.digest("chain_anchor"),
        published_ms=fields.integer("published_ms", -1),
    )
    for one in (fields, incarnation, writer):
        one.close()
    return head


def head_value(head: Head) -> dict[str, object]:
    return {
        "bytes": head.bytes,
        "chain_anchor": head.chain_anchor,
        "entries": [entry_value(entry) for entry in head.entries],
        "format": FORMAT,
        "garbage": [garbage_value(one) for one in head.garbage],
        "holds": [one._asdict() for one in head.holds],
        "incarnation": head.incarnation._asdict(),
        "indexes": [ref_value(ref) for ref in head.indexes],
        "kind": "head",
        "leader_epochs": [list(start) for start in head.leader_epochs],
        "leaves": [ref_value(ref) for ref in head.leaves],
        "log_start": head.log_start,
        "next_offset": head.next_offset,
        "nonce": head.nonce,
        "partition": head.partition,
        "partition_count": head.partition_count,
        "policy_version": head.policy_version,
        "published_ms": head.published_ms,
        "records": head.records,
        "skips": [one._asdict() for one in head.skips],
        "topic": head.topic,
        "topic_id": head.topic_id,
        "version": head.version,
        "writer": head.writer._asdict(),
    } | leaving_value(head)


def _read_hold(fields: Fields) -> Hold:
    hold = Hold(
        fields.text("id"),
        Offset(fields.integer("start")),
        Offset(fields.integer("end")),
        fields.text("reason"),
    )
    fields.close()
    return hold


def _read_skip(fields: Fields) -> Skip:
    start = fields.integer("start")
    end = fields.integer("end", start + 1)
    skip = Skip(Offset(start), Offset(end), fields.integer("time_ms", -1))
    fields.close()
    return skip


# References


def ref_value(ref: PageRef) -> dict[str, object]:
    return {
        "base": ref.base,
        "bytes": ref.bytes,
        "chain_after": ref.chain_after,
        "chain_before": ref.chain_before,
        "key": ref.key,
        "max_append_ms": ref.max_append_ms,
        "max_timestamp": ref.max_timestamp,
        "min_timestamp": ref.min_timestamp,
        "next_offset": ref.next_offset,
        "records": ref.records,
        "segments": ref.segments,
        "sha256": ref.sha256,
        "size": ref.size,
    }


def read_ref(fields: Fields) -> PageRef:
    base = fields.integer("base")
    ref = PageRef(
        key=fields.text("key", KEY_CHARACTERS_MAX),
        sha256=fields.digest("sha256"),
        size=fields.integer("size", 1, STORED_BYTES_MAX),
        base=Offset(base),
        next_offset=Offset(fields.integer("next_offset", base + 1)),
        segments=fields.integer("segments", 1),
        records=fields.integer("records"),
        bytes=fields.integer("bytes"),
        min_timestamp=TimestampMs(fields.integer("min_timestamp", -1)),
        max_timestamp=TimestampMs(fields.integer("max_timestamp", -1)),
        max_append_ms=fields.integer("max_append_ms", -1),
        chain_before=fields.digest("chain_before"),
        chain_after=fields.digest("chain_after"),
    )
    fields.close()
    name = parse_page_key(ref.key)
    if name is None or name.first != base:
        fields.refuse("key", f"is not that of a page that begins at {base}")
    return ref


# Pages


def encode_page(page: Page) -> bytes:
    return _packed(_page_value(page))


def _page_value(page: Page) -> dict[str, object]:
    about = {
        "chain_after": page.chain_after,
        "chain_before": page.chain_before,
        "format": FORMAT,
        "partition": page.partition,
        "topic_id": page.topic_id,
    }
    if isinstance(page, LeafPage):
        return about | {"kind": "leaf", "entries": [entry_value(one) for one in page.entries]}
    return about | {"kind": "index", "leaves": [ref_value(one) for one in page.leaves]}


def decode_page(data: Bytes, *, key: str) -> Page:
    """Its rows are read when they are looked at: see `Rows`."""
    fields = _opened(data, key=key, kinds=("leaf", "index"))
    page = _read_leaf(fields) if fields.place == "leaf" else _read_index(fields)
    if fields.digest("chain_after") != page.chain_after:
        fields.refuse("chain_after", "is not that of its last row")
    fields.close()
    return page


def _read_leaf(fields: Fields) -> LeafPage:
    entries = fields.items("entries", LEAF_ENTRIES_MAX, 1)
    return LeafPage(
        topic_id=fields.text("topic_id"),
        partition=fields.integer("partition", 0, PARTITIONS_MAX),
        chain_before=fields.digest("chain_before"),
        entries=Rows(entries, partial(_read_row, read_entry, fields.key)),
    )


def _read_index(fields: Fields) -> IndexPage:
    leaves = fields.items("leaves", INDEX_REFS_MAX, 1)
    page = IndexPage(
        topic_id=fields.text("topic_id"),
        partition=fields.integer("partition", 0, PARTITIONS_MAX),
        leaves=Rows(leaves, partial(_read_row, read_ref, fields.key)),
    )
    if fields.digest("chain_before") != page.chain_before:
        fields.refuse("chain_before", "is not that of its first row")
    return page


def _read_row(read: Callable[[Fields], Row], key: str, value: object, number: int) -> Row:
    return read(Fields(value, key=key, place=f"row {number}"))


def open_page(ref: PageRef, data: Bytes) -> Page:
    """The page that `ref` refers to; `ColdCorrupt` if these are not its bytes."""
    if len(data) != ref.size:
        raise ColdCorrupt(ref.key, f"it has {len(data)} bytes, {ref.size} were published")
    if sha256(data).hexdigest() != ref.sha256:
        raise ColdCorrupt(ref.key, "its SHA-256 is not the published one")
    page = decode_page(data, key=ref.key)
    rows = rows_of(page)
    if (rows[0].base, rows[-1].next_offset) != (ref.base, ref.next_offset):
        raise ColdCorrupt(ref.key, "its offsets are not those of its reference")
    return page


def check_page(ref: PageRef, page: Page) -> None:
    """Look at every row: they tile the page, and add up to what `ref` says.

    For whoever builds on a page (sealing, restoring, scrubbing); a search does without.
    """
    for one, two in pairwise(rows_of(page)):
        if two.base < one.next_offset:
            raise ColdCorrupt(ref.key, f"it overlaps itself at offset {two.base}")
    if described(page) != described(ref):
        raise ColdCorrupt(ref.key, "its content is not what its reference says")
    if isinstance(page, LeafPage):
        chain.check(page.chain_before, page.entries, key=ref.key)


def rows_of(page: Page) -> Sequence[Entry | PageRef]:
    return page.entries if isinstance(page, LeafPage) else page.leaves


class Described(NamedTuple):
    """What a page holds, told from the page or from its reference."""

    base: Offset
    next_offset: Offset
    segments: int
    records: int
    bytes: int
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
    max_append_ms: int
    chain_before: str
    chain_after: str


def described(what: Page | PageRef) -> Described:
    if isinstance(what, PageRef):
        return Described(*(getattr(what, name) for name in Described._fields))
    rows = rows_of(what)
    return Described(
        base=rows[0].base,
        next_offset=rows[-1].next_offset,
        segments=sum(one.segments if isinstance(one, PageRef) else 1 for one in rows),
        records=sum(one.records for one in rows),
        bytes=sum(one.bytes if isinstance(one, PageRef) else one.size for one in rows),
        min_timestamp=min(one.min_timestamp for one in rows),
        max_timestamp=max(one.max_timestamp for one in rows),
        max_append_ms=max(one.max_append_ms for one in rows),
        chain_before=what.chain_before,
        chain_after=what.chain_after,
    )


def refer(page: Page, *, key: str, data: bytes) -> PageRef:
    """The reference to a page that is stored as `data` at `key`."""
    about = described(page)._asdict()
    return PageRef(key=key, sha256=sha256(data).hexdigest(), size=len(data), **about)


def _packed(value: dict[str, object]) -> bytes:
    plain = canonical.to_bytes(value)
    if len(plain) > PLAIN_BYTES_MAX:
        raise InvariantBroken("bounds", f"{len(plain)} bytes, readers take {PLAIN_BYTES_MAX}")
    return canonical.compress(plain)


def _opened(data: Bytes, *, key: str, kinds: tuple[str, ...]) -> Fields:
    """The fields of an object, its format and kind checked and taken."""
    if len(data) > STORED_BYTES_MAX:
        raise ColdCorrupt(key, f"it has {len(data)} bytes, at most {STORED_BYTES_MAX} are read")
    plain = canonical.decompress(data, key=key, size_max=PLAIN_BYTES_MAX)
    fields = Fields(canonical.from_bytes(plain, key=key), key=key, place=kinds[0])
    found = fields.integer("format", 1)
    if found > FORMAT:
        raise NewerFormat(key, found=found, known=FORMAT)
    fields.place = fields.text("kind")
    if fields.place not in kinds:
        fields.refuse("kind", f"is not {' or '.join(kinds)}")
    return fields
