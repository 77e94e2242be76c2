"""The segment object: one sealed segment as it lies in the bucket.

    batches, verbatim | sections, side by side | footer, canonical JSON | trailer, 16 bytes

The trailer is the footer's size u32, its CRC-32C u32 and a magic, so whoever has the last bytes of
an object has its footer, and the footer has the places and checksums of everything else. The object
describes itself: a manifest can be rebuilt from footers alone. `docs/format/segment-object.md` has
every byte.

What a reader needs comes first, so that one ranged read brings it: the CRC of each block, the
offset index, the time index. They have the layouts of the local log.
"""

from array import array
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from tierlog.cold import canonical
from tierlog.cold.entry import BLOCK_BYTES as BLOCK_BYTES
from tierlog.cold.entry import READER_SECTIONS as READER_SECTIONS
from tierlog.cold.entry import Entry, Sample
from tierlog.cold.entry_codec import CODECS_MAX, SAMPLES_MAX, U32_MAX, read_epochs
from tierlog.cold.errors import ColdCorrupt, NewerFormat, TailCut
from tierlog.cold.fields import Fields
from tierlog.hot.epochs import EpochStart
from tierlog.hot.index import OffsetIndex
from tierlog.hot.timeindex import TimeIndex
from tierlog.types import Bytes, LeaderEpoch, Offset, Position, TimestampMs

FORMAT: Final = 1
MAGIC: Final = b"TLSEGMT\n"
TRAILER: Final = Struct(">II8s")
FOOTER_BYTES_MAX: Final = 1 << 20
TAIL_BYTES: Final = 16 << 10
"""How much of an object's end to ask for: footers have two or three thousand bytes."""

SECTIONS: Final = (*READER_SECTIONS, "batch_hashes", "producers", "leader_epochs", "aborted")
SOURCES: Final = "sources"
"""Behind the others, in an object that was merged of others: their entries (`sources.py`)."""
GAPS_MAX: Final = 1024

_EPOCH: Final = Struct(">iq")


class Section(NamedTuple):
    name: str
    position: Position
    size: int
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What an object says of itself. Fields as in `Entry`."""

    topic: str
    topic_id: str
    partition: int
    base: Offset
    last: Offset
    records: int
    batches: int
    data_bytes: int
    data_sha256: str
    """Of the batches alone: the object's own cannot stand inside it."""
    merkle_root: str
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
    max_timestamp_offset: Offset
    max_append_ms: int
    leader_epochs: tuple[EpochStart, ...]
    samples: tuple[Sample, ...]
    codecs: tuple[str, ...]
    has_aborted: bool
    gaps: tuple[tuple[int, int], ...]
    """Offsets `[start, end)` inside the segment that no batch has, and for good."""
    index_crc32c: int
    sections: tuple[Section, ...]

    def entry(self, *, key: str, size: int, sha256: str, crc32c: int) -> Entry:
        """The manifest's entry for this object; `key` is relative to the partition."""
        return Entry(
            key=key,
            size=size,
            sha256=sha256,
            crc32c=crc32c,
            base=self.base,
            last=self.last,
            records=self.records,
            batches=self.batches,
            data_bytes=self.data_bytes,
            min_timestamp=self.min_timestamp,
            max_timestamp=self.max_timestamp,
            max_timestamp_offset=self.max_timestamp_offset,
            max_append_ms=self.max_append_ms,
            sections={one.name: (one.position, one.size) for one in self.sections},
            index_crc32c=self.index_crc32c,
            samples=self.samples,
            leader_epochs=self.leader_epochs,
            merkle_root=self.merkle_root,
            codecs=self.codecs,
            has_aborted=self.has_aborted,
        )

    def section(self, name: str) -> Section | None:
        return next((one for one in self.sections if one.name == name), None)


# Writing


def encode_footer(footer: Footer) -> bytes:
    """Footer and trailer: the end of an object."""
    data = canonical.to_bytes(
        {
            "base": footer.base,
            "batches": footer.batches,
            "codecs": list(footer.codecs),
            "data_bytes": footer.data_bytes,
            "data_sha256": footer.data_sha256,
            "format": FORMAT,
            "gaps": [list(gap) for gap in footer.gaps],
            "has_aborted": footer.has_aborted,
            "index_crc32c": footer.index_crc32c,
            "last": footer.last,
            "leader_epochs": [list(start) for start in footer.leader_epochs],
            "max_append_ms": footer.max_append_ms,
            "max_timestamp": footer.max_timestamp,
            "max_timestamp_offset": footer.max_timestamp_offset,
            "merkle_root": footer.merkle_root,
            "min_timestamp": footer.min_timestamp,
            "partition": footer.partition,
            "records": footer.records,
            "samples": [list(sample) for sample in footer.samples],
            "sections": [one._asdict() for one in footer.sections],
            "topic": footer.topic,
            "topic_id": footer.topic_id,
        }
    )
    return data + TRAILER.pack(len(data), crc32c(data), MAGIC)


def place_sections(contents: dict[str, bytes], *, data_bytes: int) -> tuple[Section, ...]:
    """Where each section lies, in the order given, behind `data_bytes` of batches."""
    placed = []
    position = data_bytes
    for name, content in contents.items():
        placed.append(Section(name, Position(position), len(content), crc32c(content)))
        position += len(content)
    return tuple(placed)


def encode_epochs(epochs: tuple[EpochStart, ...]) -> bytes:
    return b"".join(_EPOCH.pack(*start) for start in epochs)


# Reading


def parse_tail(data: Bytes, *, object_size: int, key: str) -> Footer:
    """The footer, from the last bytes of an object (`TAIL_BYTES` of them will do).

    `TailCut` says how many are needed if these are too few.
    """
    view = memoryview(data)
    if len(view) < TRAILER.size:
        raise TailCut(key, needed=TRAILER.size, present=len(view))
    size, crc, magic = TRAILER.unpack_from(view, len(view) - TRAILER.size)
    needed = size + TRAILER.size
    if magic != MAGIC or size > FOOTER_BYTES_MAX or needed > object_size:
        raise ColdCorrupt(key, "it does not end as a segment object does")
    if needed > len(view):
        raise TailCut(key, needed=needed, present=len(view))
    plain = view[len(view) - needed : len(view) - TRAILER.size]
    if crc32c(plain) != crc:
        raise ColdCorrupt(key, "the checksum of its footer is wrong")
    fields = Fields(canonical.from_bytes(plain, key=key), key=key, place="footer")
    return _read_footer(fields, sections_end=object_size - needed)


def _read_footer(fields: Fields, *, sections_end: int) -> Footer:
    found = fields.integer("format", 1)
    if found > FORMAT:
        raise NewerFormat(fields.key, found=found, known=FORMAT)
    base = fields.integer("base")
    last = fields.integer("last", base)
    data_bytes = fields.integer("data_bytes", 1)
    footer = Footer(
        topic=fields.text("topic"),
        topic_id=fields.text("topic_id"),
        partition=fields.integer("partition", 0, 2**31 - 1),
        base=Offset(base),
        last=Offset(last),
        records=fields.integer("records"),
        batches=fields.integer("batches", 1),
        data_bytes=data_bytes,
        data_sha256=fields.digest("data_sha256"),
        merkle_root=fields.digest("merkle_root"),
        min_timestamp=TimestampMs(fields.integer("min_timestamp", -1)),
        max_timestamp=TimestampMs(fields.integer("max_timestamp", -1)),
        max_timestamp_offset=Offset(fields.integer("max_timestamp_offset", base, last)),
        max_append_ms=fields.integer("max_append_ms", -1),
        leader_epochs=read_epochs(fields),
        samples=tuple(
            Sample(Offset(offset), Position(position))
            for offset, position in fields.pairs("samples", SAMPLES_MAX)
        ),
        codecs=tuple(fields.texts("codecs", CODECS_MAX)),
        has_aborted=fields.flag("has_aborted"),
        gaps=tuple(fields.pairs("gaps", GAPS_MAX)),
        index_crc32c=fields.integer("index_crc32c", 0, U32_MAX),
        sections=_read_sections(fields, start=data_bytes, end=sections_end),
    )
    fields.close()
    return footer


def _read_sections(fields: Fields, *, start: int, end: int) -> tuple[Section, ...]:
    sections = []
    for inner in fields.inners("sections", len(SECTIONS) + 1):
        section = Section(
            inner.text("name"),
            Position(inner.integer("position", start, start)),
            inner.integer("size", 0, end),
            inner.integer("crc32c", 0, U32_MAX),
        )
        inner.close()
        sections.append(section)
        start += section.size
    names = tuple(one.name for one in sections)
    if names not in (SECTIONS, (*SECTIONS, SOURCES)) or start != end:
        fields.refuse("sections", "do not lie as those of a segment object do")
    return tuple(sections)


def check_section(section: Section, data: Bytes, *, key: str) -> None:
    """`ColdCorrupt` unless these are the section's bytes."""
    if len(data) != section.size or crc32c(data) != section.crc32c:
        raise ColdCorrupt(key, f"the checksum of its section {section.name} is wrong")


def decode_epochs(data: Bytes, *, key: str) -> tuple[EpochStart, ...]:
    """The section `leader_epochs`: the partition's epochs up to the end of the segment."""
    if len(data) % _EPOCH.size:
        raise ColdCorrupt(key, "its section leader_epochs is cut short")
    return tuple(
        EpochStart(LeaderEpoch(epoch), Offset(start)) for epoch, start in _EPOCH.iter_unpack(data)
    )


# What a reader needs of an object


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderIndex:
    """The reader's sections of one object, checked and ready."""

    block_crcs: "array[int]"
    """CRC-32C of each `BLOCK_BYTES` of the batches; the last block may be shorter."""
    offsets: OffsetIndex
    times: TimeIndex


def reader_span(entry: Entry) -> tuple[Position, Position]:
    """The range of the object that `open_reader_index` wants."""
    start, _ = entry.sections[READER_SECTIONS[0]]
    position, size = entry.sections[READER_SECTIONS[-1]]
    return Position(start), Position(position + size)


def open_reader_index(entry: Entry, data: Bytes) -> ReaderIndex:
    """From the bytes of `reader_span`; `ColdCorrupt` if they are not those that were uploaded."""
    start, end = reader_span(entry)
    if len(data) != end - start or crc32c(data) != entry.index_crc32c:
        raise ColdCorrupt(entry.key, "the checksum of its index is wrong")
    view = memoryview(data)
    parts = [
        view[position - start : position - start + size]
        for position, size in (entry.sections[name] for name in READER_SECTIONS)
    ]
    offsets = OffsetIndex.from_bytes(entry.base, parts[1])
    times = TimeIndex.from_bytes(entry.base, parts[2])
    blocks = -(-entry.data_bytes // BLOCK_BYTES)
    if offsets is None or times is None or len(parts[0]) != 4 * blocks:
        raise ColdCorrupt(entry.key, "its index has the right checksum and makes no sense")
    return ReaderIndex(block_crcs=_numbers(parts[0]), offsets=offsets, times=times)


def _numbers(data: Bytes) -> "array[int]":
    return array("I", [one for (one,) in Struct(">I").iter_unpack(data)])
