"""HEAD: the manifest of one partition, as a value.

The only object of a partition that is ever replaced, and the commit point of everything cold:
`[log_start, next_offset)` is in the bucket because HEAD says so. Recent entries stand in it; older
ones in immutable leaf pages, whose references stand in HEAD or in index pages. References carry
enough that time lookup, size retention and pricing open no page they do not need.

Invariant: index pages, leaf references and entries tile the offsets from the first of them to
`next_offset` without gap or overlap (skips of rule U10 aside, which stand in `skips`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from tierlog.cold.entry import Entry
from tierlog.hot.epochs import EpochStart
from tierlog.types import LeaderEpoch, Offset, TimestampMs

FORMAT = 1
ENTRIES_INLINE_MAX = 32
"""Entries in HEAD before they move to a leaf page. Few, since HEAD is written at every publish: 32
keep it near 5 kB."""
LEAF_REFS_INLINE_MAX = 4
"""Full leaf pages in HEAD before their references move to an index page."""
LEAF_ENTRIES_MAX = 256
INDEX_REFS_MAX = 1024
"""Many, since a reference takes 150 bytes of every HEAD: a million segments then need four."""


NOT_YET = Offset(-1)


class Writer(NamedTuple):
    """Who may publish. Both parts must be equal: a cloned disk has the epoch, not the process."""

    leader_epoch: LeaderEpoch
    process: str
    """Random, for each start of a node."""


class Incarnation(NamedTuple):
    """One life of the cluster; a restore begins the next."""

    number: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRef:
    """A leaf page (of entries) or an index page (of leaf references), and what is below it."""

    key: str
    """Relative to the partition's prefix: `page/...`."""
    sha256: str
    """Of the object's bytes as stored."""
    size: int
    base: Offset
    next_offset: Offset
    segments: int
    records: int
    bytes: int
    """Of the segment objects."""
    min_timestamp: TimestampMs
    max_timestamp: TimestampMs
    max_append_ms: int
    chain_before: str
    chain_after: str


class Skip(NamedTuple):
    """Offsets `[start, end)` that DeleteRecords took before they were uploaded (U10)."""

    start: Offset
    end: Offset
    time_ms: int


class Hold(NamedTuple):
    id: str
    start: Offset
    end: Offset
    reason: str


RETENTION_MS = "retention.ms"
RETENTION_BYTES = "retention.bytes"
DELETE_RECORDS = "delete-records"
MERGE = "merge"
REASONS = (RETENTION_MS, RETENTION_BYTES, DELETE_RECORDS, MERGE)
"""Why segments leave the manifest."""


class Policy(NamedTuple):
    """How long records live, as the topic says; -1 is no limit."""

    retention_ms: int = -1
    retention_bytes: int = -1


class Expired(NamedTuple):
    """Offsets below `end`, from the item before on, are not served any more, and why."""

    end: Offset
    why: str
    policy_version: int
    time_ms: int


class Garbage(NamedTuple):
    """An object that nothing refers to any more; it may be deleted at the earliest then.

    What only a receipt needs is not known of a page that was merely replaced by a fuller one.
    """

    key: str
    version_id: str | None
    not_before_ms: int
    why: str = ""
    """One of `REASONS`; empty for a page that holds no segments of its own."""
    policy_version: int = -1
    expired_ms: int = -1
    """When its records stopped being served."""
    sha256: str = ""
    size: int = -1
    segments_from: int = -1
    """Of a leaf page whose segments go with it: those from this offset on. The ones before were
    garbage of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    version: int
    """Rises by one with every commit."""
    nonce: str
    """New for every commit: tells whose commit it was, whatever the ETag says."""
    incarnation: Incarnation
    writer: Writer
    topic: str
    topic_id: str
    partition: int
    partition_count: int
    log_start: Offset
    next_offset: Offset
    """The partition's `uploaded_end`."""
    leader_epochs: tuple[EpochStart, ...] = ()
    """Of `[log_start, next_offset)`."""
    policy_version: int = 0
    """Rises by one whenever `policy` or `holds` change."""
    policy: Policy | None = None
    """By which records expire; None: no writer has said yet."""
    holds: tuple[Hold, ...] = ()
    records: int = 0
    bytes: int = 0
    """Of the segment objects from `garbage_end` on."""
    entries: tuple[Entry, ...] = ()
    leaves: tuple[PageRef, ...] = ()
    """Leaf pages between the last index page and the entries; the last may be partly filled, and
    is then replaced by a fuller one."""
    indexes: tuple[PageRef, ...] = ()
    """Index pages; the last may be partly filled, likewise."""
    garbage: tuple[Garbage, ...] = ()
    garbage_end: Offset = NOT_YET
    """Segments that end at or before it became garbage, also where a page still lists them; at most
    `log_start`. -1: none has."""
    expired: tuple[Expired, ...] = ()
    """Why `log_start` is where it is, for what is not garbage yet."""
    skips: tuple[Skip, ...] = ()
    chain_anchor: str = ""
    """The chain's value before the first entry that is listed."""
    published_ms: int = -1
    """Wall clock of the last commit."""
