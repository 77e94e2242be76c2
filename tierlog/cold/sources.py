"""The section `sources` of a merged object: the entries that it was merged of.

Gzipped canonical JSON, `{"entries": [...], "format": 1, "kind": "sources"}`, entries as in a
manifest and as they were published, chain values and all. Of a merge of merges they are those of
the first uploads: what stood in between is forgotten, the chain over the first is not.

With them anybody can follow the chain through the entries that a merge took out of the manifest
(`chain.replay`), and tell of each stretch of the merged object what it was uploaded as.
"""

from collections.abc import Sequence

from tierlog.cold import canonical, chain
from tierlog.cold.entry import Entry
from tierlog.cold.entry_codec import REPLACED_MAX, entry_value, read_entry
from tierlog.cold.errors import ColdCorrupt, InvariantBroken, NewerFormat
from tierlog.cold.fields import Fields
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.segment_object import SOURCES
from tierlog.objectstore.port import ObjectStore, Span
from tierlog.types import Bytes, Position

FORMAT = 1
PLAIN_BYTES_MAX = 16 << 20
"""Four kilobytes for each of the most that there may be; entries of small segments have one."""


def encode(entries: Sequence[Entry]) -> bytes:
    plain = canonical.to_bytes(
        {
            "entries": [entry_value(one) for one in entries],
            "format": FORMAT,
            "kind": SOURCES,
        }
    )
    if len(plain) > PLAIN_BYTES_MAX:
        raise InvariantBroken("bounds", f"{len(plain)} bytes, readers take {PLAIN_BYTES_MAX}")
    return canonical.compress(plain)


def decode(data: Bytes, *, key: str) -> tuple[Entry, ...]:
    plain = canonical.decompress(data, key=key, size_max=PLAIN_BYTES_MAX)
    fields = Fields(canonical.from_bytes(plain, key=key), key=key, place=SOURCES)
    found = fields.integer("format", 1)
    if found > FORMAT:
        raise NewerFormat(key, found=found, known=FORMAT)
    if fields.text("kind") != SOURCES:
        fields.refuse("kind", f"is not {SOURCES}")
    entries = tuple(read_entry(one) for one in fields.inners("entries", REPLACED_MAX))
    fields.close()
    return entries


def span_of(entry: Entry) -> Span | None:
    """Where the section lies in the object; None if the entry names none."""
    position, size = entry.sections.get(SOURCES, (0, 0))
    return Span(Position(position), Position(position + size)) if size else None


def opened(entry: Entry, data: Bytes) -> tuple[Entry, ...]:
    """The entries that `entry` replaces, from the bytes of `span_of`. `ColdCorrupt` unless they are
    those that its link in the chain speaks of."""
    entries = decode(data, key=entry.key)
    chain.replay(entry, entries, key=entry.key)
    return entries


async def read(store: ObjectStore, keys: PartitionKeys, entry: Entry) -> tuple[Entry, ...]:
    """As the store has them; the entry itself, where it replaces none. One request."""
    if entry.replaces is None:
        return (entry,)
    span = span_of(entry)
    if span is None:
        raise ColdCorrupt(entry.key, "it replaces others, and the object does not say which")
    got = await store.get(keys.full(entry.key), span=span, version_id=entry.version_id)
    return opened(entry, got.data)
