"""One cold segment as the manifest knows it.

An entry is enough to find, price, expire and check a segment without opening it, and to read any
offset of it with one ranged read near the right place (`samples`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from tierlog.hot.epochs import EpochStart
from tierlog.types import Offset, Position, TimestampMs

READER_SECTIONS = ("block_crcs", "offset_index", "time_index")
"""What a reader of an object needs beside the batches; the first sections of every object."""

BLOCK_BYTES = 1 << 20
"""The batches of an object have a CRC for each so many bytes."""


class Sample(NamedTuple):
    """A batch that starts at this offset lies at this position."""

    offset: Offset
    position: Position


class Replaced(NamedTuple):
    """The link of the chain over entries that one entry stands in place of: a merge.

    The merged object's section `sources` has those entries whole, so whoever wants to can follow
    the chain through them, from `before` to the entry's own `chain`.
    """

    before: str
    """The chain's value before the first of them."""
    segments: int
    """How many they are, as they were uploaded: of a merge of merges, all of the first ones."""
    merkle_root: str
    """Over their canonical bytes without `chain`, as over the batches of a segment."""
    link: str = ""
    """SHA-256(before || canonical entry without it): binds the new entry to its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    key: str
    """Relative to the partition's prefix: `seg/...`."""
    version_id: str | None = None
    size: int
    """Of the whole object."""
    sha256: str
    """Of the whole object, in hexadecimal digits, as all hashes here."""
    crc32c: int
    """Of the whole object."""
    base: Offset
    last: Offset
    """Inclusive, as in the key; `next_offset` is one more."""
    records: int
    batches: int
    data_bytes: int
    """Batches only: `[0, data_bytes)` of the object."""
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
    max_timestamp_offset: Offset
    """Last offset of the batch that has the largest timestamp."""
    max_append_ms: int
    """Wall clock of the broker when the last batch was appended, at the latest."""
    sections: dict[str, tuple[int, int]]
    """Name to position and size; `segment_object.py` has the names."""
    index_crc32c: int
    """Of the sections that a reader needs (block CRCs, offset and time index), which lie side by
    side, in that order: what a reader fetched alone can be checked alone."""
    samples: tuple[Sample, ...]
    """At most 16, rising; the first is the base at position 0."""
    leader_epochs: tuple[EpochStart, ...]
    """Epochs that wrote in the segment; the first starts at or before its base."""
    merkle_root: str
    chain: str = ""
    """Filled when the entry is published: SHA-256(chain before || canonical entry without it). Of
    one that replaces others: the value behind the last of them, so that what follows stays."""
    storage_class: str = "STANDARD"
    codecs: tuple[str, ...] = ()
    has_aborted: bool = False
    retain_until_ms: int = -1
    dek_id: str | None = None
    replaces: Replaced | None = None

    @property
    def next_offset(self) -> Offset:
        return Offset(self.last + 1)
