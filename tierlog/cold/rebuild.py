"""A manifest made again from the segments alone, where HEAD is gone.

Every object says in its footer what it is, and by which leaders its partition was written so far.
The word of the latest leader counts: an object whose epochs are others for the same offsets is of a
node that others had replaced (its disk was gone, a restore was made), and was never published
(`lineages`). Of those that agree a run is chosen that leads furthest: several leaders may have
uploaded the same offsets in different cuts, and since only committed records are ever uploaded, any
of them will do. Each chosen object is read to its end, since an entry vouches for every byte of it.

What cannot be known any more is said: segments that had expired and were not yet deleted come back,
and a gap may be what DeleteRecords took or what somebody removed. Where the latest leader uploaded
nothing at all, an older one's unpublished objects cannot be told from published ones.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from crc32c import crc32c

from tierlog.cold import segment_object
from tierlog.cold.errors import ColdCorrupt, TailCut
from tierlog.cold.layout import SEGMENTS, parse_segment_key
from tierlog.cold.lineages import History
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import Span
from tierlog.types import Offset, Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.cold.entry import Entry
    from tierlog.cold.layout import PartitionKeys, SegmentName
    from tierlog.cold.segment_object import Footer
    from tierlog.hot.epochs import EpochStart
    from tierlog.objectstore.port import ObjectStore

READ_BYTES = 8 << 20


class Candidate(NamedTuple):
    key: str
    """Relative to the partition."""
    name: SegmentName
    size: int


@dataclass(slots=True)
class Rebuilt:
    entries: list[Entry] = field(default_factory=list)
    """In order; where one does not begin at the end of the one before, there is a gap."""
    problems: list[str] = field(default_factory=list)
    end: int = 0
    """Behind every offset that any segment names, also one that is damaged or does not fit: they
    were given out once."""


async def read_footer(store: ObjectStore, key: str) -> Footer:
    """Of the segment object `key`, a full one. Raises `NoSuchObject` and `ColdCorrupt`."""
    size = segment_object.TAIL_BYTES
    while True:
        got = await store.get_tail(key, size)
        try:
            return segment_object.parse_tail(got.data, object_size=got.stat.size, key=key)
        except TailCut as cut:
            if cut.needed <= size:
                raise
            size = cut.needed


async def read_section(store: ObjectStore, key: str, footer: Footer, name: str) -> bytes:
    """One section of the segment object `key`, checked; empty if it has none of that name."""
    section = footer.section(name)
    if section is None or not section.size:
        return b""
    end = Position(section.position + section.size)
    got = await store.get(key, span=Span(section.position, end))
    segment_object.check_section(section, got.data, key=key)
    return bytes(got.data)


async def rebuild(store: ObjectStore, keys: PartitionKeys) -> Rebuilt:
    """The entries of the best run of segments that are in the bucket and whole."""
    rebuilt = Rebuilt()
    found = await candidates(store, keys)
    rebuilt.end = max((one.name.last + 1 for one in found), default=0)
    left = await _agreeing(store, keys, found, rebuilt.problems)
    known: dict[str, Entry] = {}
    while True:
        run = best_run(left)
        missing = [one for one in run if one.key not in known]
        if not missing:
            break
        for one in missing:
            try:
                known[one.key] = await _entry(store, keys, one)
            except (ColdCorrupt, NoSuchObject) as fault:
                rebuilt.problems.append(f"{one.key} is not used: {fault}")
                left.remove(one)
    rebuilt.entries = [known[one.key] for one in run]
    return rebuilt


async def _agreeing(
    store: ObjectStore, keys: PartitionKeys, found: list[Candidate], problems: list[str]
) -> list[Candidate]:
    """Those that are of one history with what the latest leader uploaded."""
    history, kept = History(), []
    for one in sorted(found, key=lambda one: (one.name.leader_epoch, one.name.last), reverse=True):
        try:
            lineage = await _lineage(store, keys, one)
        except (ColdCorrupt, NoSuchObject) as fault:
            problems.append(f"{one.key} is not used: {fault}")
            continue
        dissent = history.add(lineage, Offset(one.name.last + 1))
        if dissent is None:
            kept.append(one)
        else:
            problems.append(
                f"{one.key} is not used: from offset {dissent.offset} on it is not what the "
                f"leader of epoch {dissent.leader_epoch} wrote"
            )
    return kept


async def _lineage(
    store: ObjectStore, keys: PartitionKeys, one: Candidate
) -> tuple[EpochStart, ...]:
    """The partition's leader epochs up to the end of the object."""
    key = keys.full(one.key)
    footer = await read_footer(store, key)
    data = await read_section(store, key, footer, "leader_epochs")
    return segment_object.decode_epochs(data, key=key) if data else footer.leader_epochs


async def candidates(store: ObjectStore, keys: PartitionKeys) -> list[Candidate]:
    """Everything that is called a segment."""
    found = []
    async for page in store.list(keys.full(SEGMENTS)):
        for stat in page:
            key = keys.relative(stat.key)
            if key is not None and (name := parse_segment_key(key)) is not None:
                found.append(Candidate(key, name, stat.size))
    return found


def best_run(found: Sequence[Candidate]) -> list[Candidate]:
    """From the lowest offset on, always the object that leads furthest without a gap; behind a gap
    the next that begins. Of two that lead as far, the later leader's."""
    by_base: dict[int, list[Candidate]] = defaultdict(list)
    for one in found:
        by_base[one.name.base].append(one)
    best: dict[int, tuple[int, Candidate]] = {}
    """By base: how far a run from there leads, and with which object it begins."""
    for base in sorted(by_base, reverse=True):
        best[base] = max(
            (
                (best[end][0] if (end := one.name.last + 1) in best else end, one)
                for one in by_base[base]
            ),
            key=lambda row: (row[0], row[1].name.leader_epoch, row[1].key),
        )
    run: list[Candidate] = []
    end = 0
    for base in sorted(best):
        at = base
        while at >= end and at in best:
            chosen = best[at][1]
            run.append(chosen)
            at = end = chosen.name.last + 1
    return run


async def _entry(store: ObjectStore, keys: PartitionKeys, one: Candidate) -> Entry:
    key = keys.full(one.key)
    footer = await read_footer(store, key)
    place = footer.topic_id, footer.partition, footer.base, footer.last
    if place != (keys.topic_id, keys.partition, one.name.base, one.name.last):
        raise ColdCorrupt(one.key, "its footer names another segment")
    whole, batches, crc = sha256(), sha256(), 0
    for start in range(0, one.size, READ_BYTES):
        end = min(start + READ_BYTES, one.size)
        got = await store.get(key, span=Span(Position(start), Position(end)))
        whole.update(got.data)
        batches.update(memoryview(got.data)[: max(0, footer.data_bytes - start)])
        crc = crc32c(got.data, crc)
    if batches.hexdigest() != footer.data_sha256:
        raise ColdCorrupt(one.key, "its batches are not those that were uploaded")
    return footer.entry(key=one.key, size=one.size, sha256=whole.hexdigest(), crc32c=crc)
