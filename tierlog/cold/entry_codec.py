"""An entry as a JSON value, and back.

Numbers that follow from others are not written twice: sections lie side by side behind the batches
in the order listed, so only their sizes stand here; samples are relative to the base.
"""

from itertools import pairwise

from tierlog.cold.entry import BLOCK_BYTES, READER_SECTIONS, Entry, Replaced, Sample
from tierlog.cold.fields import Fields
from tierlog.cold.layout import KEY_CHARACTERS_MAX, parse_segment_key
from tierlog.hot.epochs import EpochStart
from tierlog.types import LeaderEpoch, Offset, Position, TimestampMs

SAMPLES_MAX = 16
SECTIONS_MAX = 16
CODECS_MAX = 8
EPOCHS_MAX = 4096
"""Leader epochs that are listed, in an entry or for a partition: each start of a node is one."""
U32_MAX = 2**32 - 1
REPLACED_MAX = 4096
"""Segments that one object is merged of, counted as they were uploaded. Their entries stay in the
object, some 280 bytes each: a megabyte at most."""


def entry_value(entry: Entry) -> dict[str, object]:
    """Every field, none left out: a hash is taken over it. `replaces` stands only where there is
    one: the others keep the bytes, and the hashes, that they had before there were merges."""
    value: dict[str, object] = {
        "base": entry.base,
        "batches": entry.batches,
        "chain": entry.chain,
        "codecs": list(entry.codecs),
        "crc32c": entry.crc32c,
        "data_bytes": entry.data_bytes,
        "dek_id": entry.dek_id,
        "has_aborted": entry.has_aborted,
        "index_crc32c": entry.index_crc32c,
        "key": entry.key,
        "last": entry.last,
        "leader_epochs": [list(start) for start in entry.leader_epochs],
        "max_append_ms": entry.max_append_ms,
        "max_timestamp": entry.max_timestamp,
        "max_timestamp_offset": entry.max_timestamp_offset,
        "merkle_root": entry.merkle_root,
        "min_timestamp": entry.min_timestamp,
        "records": entry.records,
        "retain_until_ms": entry.retain_until_ms,
        "samples": [[one.offset - entry.base, one.position] for one in entry.samples],
        "sections": [[name, size] for name, (_, size) in entry.sections.items()],
        "sha256": entry.sha256,
        "size": entry.size,
        "storage_class": entry.storage_class,
        "version_id": entry.version_id,
    }
    if entry.replaces is not None:
        value["replaces"] = entry.replaces._asdict()
    return value


def read_entry(fields: Fields) -> Entry:
    base = fields.integer("base")
    data_bytes = fields.integer("data_bytes", 1)
    entry = Entry(
        key=fields.text("key", KEY_CHARACTERS_MAX),
        version_id=fields.maybe_text("version_id"),
        size=fields.integer("size", 1),
        sha256=fields.digest("sha256"),
        crc32c=fields.integer("crc32c", 0, U32_MAX),
        base=Offset(base),
        last=Offset(fields.integer("last", base)),
        records=fields.integer("records"),
        batches=fields.integer("batches"),
        data_bytes=data_bytes,
        min_timestamp=TimestampMs(fields.integer("min_timestamp", -1)),
        max_timestamp=TimestampMs(fields.integer("max_timestamp", -1)),
        max_timestamp_offset=Offset(fields.integer("max_timestamp_offset", base)),
        max_append_ms=fields.integer("max_append_ms", -1),
        sections=_read_sections(fields, data_bytes),
        index_crc32c=fields.integer("index_crc32c", 0, U32_MAX),
        samples=tuple(
            Sample(Offset(base + offset), Position(position))
            for offset, position in fields.pairs("samples", SAMPLES_MAX)
        ),
        leader_epochs=read_epochs(fields),
        merkle_root=fields.digest("merkle_root"),
        chain=fields.digest("chain"),
        storage_class=fields.text("storage_class"),
        codecs=tuple(fields.texts("codecs", CODECS_MAX)),
        has_aborted=fields.flag("has_aborted"),
        retain_until_ms=fields.integer("retain_until_ms", -1),
        dek_id=fields.maybe_text("dek_id"),
        replaces=_read_replaced(fields.maybe_inner("replaces")),
    )
    fields.close()
    _check(entry, fields)
    return entry


def _read_replaced(fields: Fields | None) -> Replaced | None:
    if fields is None:
        return None
    replaced = Replaced(
        fields.digest("before"),
        fields.integer("segments", 2, REPLACED_MAX),
        fields.digest("merkle_root"),
        fields.digest("link"),
    )
    fields.close()
    return replaced


def _read_sections(fields: Fields, position: int) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for item in fields.items("sections", SECTIONS_MAX):
        if not isinstance(item, list) or len(item) != 2:
            fields.refuse("sections", "is not a list of names and sizes")
        name, size = item
        if not isinstance(name, str) or type(size) is not int or size < 0 or name in found:
            fields.refuse("sections", "is not a list of different names and sizes")
        found[name] = (position, size)
        position += size
    return found


def read_epochs(fields: Fields) -> tuple[EpochStart, ...]:
    found = tuple(
        EpochStart(LeaderEpoch(epoch), Offset(start))
        for epoch, start in fields.pairs("leader_epochs", EPOCHS_MAX)
    )
    for one, two in pairwise(found):
        if one.leader_epoch >= two.leader_epoch or one.start >= two.start:
            fields.refuse("leader_epochs", "do not rise")
    return found


def _check(entry: Entry, fields: Fields) -> None:
    """What a reader relies on before it computes with the numbers."""
    name = parse_segment_key(entry.key)
    if name is None or (name.base, name.last) != (entry.base, entry.last):
        fields.refuse("key", "is not that of such a segment")
    _check_sections(entry, fields)
    if not entry.samples or entry.samples[0] != (entry.base, 0):
        fields.refuse("samples", "do not begin with the base at position 0")
    last = entry.samples[-1]
    if last.offset > entry.last or last.position >= entry.data_bytes:
        fields.refuse("samples", "lie behind the data")
    for one, two in pairwise(entry.samples):
        if one.offset >= two.offset or one.position >= two.position:
            fields.refuse("samples", "do not rise")


def _check_sections(entry: Entry, fields: Fields) -> None:
    sizes = [size for _, size in entry.sections.values()]
    if tuple(entry.sections)[:3] != READER_SECTIONS:
        fields.refuse("sections", "do not begin with those that a reader needs")
    if sizes[0] != 4 * -(-entry.data_bytes // BLOCK_BYTES) or sizes[1] % 8 or sizes[2] % 12:
        fields.refuse("sections", "have sizes that their content cannot have")
    if entry.data_bytes + sum(sizes) >= entry.size:
        fields.refuse("sections", "end behind the object")
