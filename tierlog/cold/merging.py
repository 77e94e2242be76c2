"""Which small segments are merged. Pure.

A slow topic seals a segment an hour, of a few kilobytes each. Every reader of its history pays for
each of them, for ever: an index and a chunk, two requests, where a merged object takes one index
and a chunk for every few MiB. With `n` segments of `d` bytes of batches, chunks of `ch` and `f`
replays (or scrubs) a month, that is, at the price of a GET,

    before  f * sum(1 + ceil(d_i / ch))        after  f * (1 + ceil(sum(d_i) / ch))

A merge costs `n` GETs (a source is read once), two PUTs (the object, and HEAD) and the request that
verifies it. Eight hourly segments make 16 PUTs when they are uploaded; merging adds two to them.

**How often a record is rewritten.** A run is merged only if the result is `GROWTH` times its
largest member, and what has reached `target / SMALL_SHARE` is left alone. So the object that holds
a record grows at least fourfold each time its bytes are written again: uploaded in `d` bytes, it is
merged for the k-th time only while `4^(k-1) * d < target / 4`, that is

    k <= ceil(log4(target / (4 * d)))          8 times for 1 KiB and 128 MiB; 3 times for 1 MiB

Segments of one size meet eight at a time: they grow eightfold, and 1 KiB is written 5 times. That
is the whole write amplification, whatever the sizes and their order.

**What is left alone** (`_group`): segments that are not wholly in the log; those that are locked or
lie in another storage class (a rewrite pays for what is left of the least duration); those of
different keys; those that hold aborted transactions. And a run does not cross a hold's border.

**Retention** deletes whole segments, so a merged one stays until its last record may go. A run
spans an eighth of `retention.ms` and of `retention.bytes` at most: records stay that much longer.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tierlog.cold.entry import Entry
from tierlog.cold.entry_codec import REPLACED_MAX
from tierlog.cold.head import Hold
from tierlog.types import Offset

RUN_MIN = 8
"""Segments of a run that does not reach the target. A commit costs as much as twelve reads."""
GROWTH = 4
SMALL_SHARE = 4
RETENTION_SHARE = 8
STANDARD = "STANDARD"
OFFSETS_MAX = 2**31 - 1
"""Indexes have offsets relative to the base in 32 bits."""
NO_LIMIT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What may be merged, and into what."""

    target_bytes: int
    """Of batches, in the merged object."""
    start: Offset
    end: Offset
    """Only what lies in here."""
    segments_max: int
    """Of one run."""
    span_ms_max: int = NO_LIMIT
    """From its first record to its last, by their timestamps."""
    holds: tuple[Hold, ...] = ()
    refused: Collection[str] = frozenset()
    """Keys of objects that are better left alone: reading them failed."""

    @property
    def small_bytes(self) -> int:
        return self.target_bytes // SMALL_SHARE


def target_of(bytes_max: int, *, segment_bytes: int, retention_bytes: int) -> int:
    """Nothing larger than the topic's own segments, and no large part of all that is retained."""
    target = min(bytes_max, segment_bytes)
    if retention_bytes >= 0:
        target = min(target, retention_bytes // RETENTION_SHARE)
    return target


def span_of(retention_ms: int) -> int:
    return retention_ms // RETENTION_SHARE if retention_ms >= 0 else NO_LIMIT


def choose(entries: Sequence[Entry], wanted: Wanted) -> tuple[Entry, ...]:
    """The first run that is worth a merge, as long as it may be; empty if there is none."""
    for stretch in _stretches(entries, wanted):
        for first in range(len(stretch)):
            if count := _length(stretch, first, wanted):
                return tuple(stretch[first : first + count])
    return ()


def count_small(entries: Sequence[Entry], wanted: Wanted) -> int:
    """How many there are that a merge could take, now or later."""
    return sum(one.data_bytes < wanted.small_bytes for one in entries)


def _stretches(entries: Sequence[Entry], wanted: Wanted) -> Iterator[list[Entry]]:
    """Neighbours that may be in one object."""
    stretch: list[Entry] = []
    group: object = None
    for entry in entries:
        other = _group(entry, wanted)
        is_next = bool(stretch) and stretch[-1].next_offset == entry.base and group == other
        if stretch and not is_next:
            yield stretch
            stretch = []
        group = other
        if other is not None:
            stretch.append(entry)
    if stretch:
        yield stretch


def _group(entry: Entry, wanted: Wanted) -> tuple[object, ...] | None:
    """What all members of a run share; None if the entry is left alone."""
    is_within = wanted.start <= entry.base and entry.next_offset <= wanted.end
    is_plain = entry.storage_class == STANDARD and entry.retain_until_ms < 0
    if not is_within or not is_plain or entry.has_aborted or entry.key in wanted.refused:
        return None
    if entry.data_bytes >= wanted.small_bytes:
        return None
    held = tuple(
        one.id for one in wanted.holds if one.start < entry.next_offset and entry.base < one.end
    )
    return entry.dek_id, held


def _length(stretch: Sequence[Entry], first: int, wanted: Wanted) -> int:
    """Of the longest run from `first` on that is worth a merge; 0 if none is."""
    total = largest = segments = best = 0
    base, since = stretch[first].base, stretch[first].min_timestamp
    for count, entry in enumerate(stretch[first : first + wanted.segments_max], start=1):
        total += entry.data_bytes
        largest = max(largest, entry.data_bytes)
        segments += sources_of(entry)
        is_long = 0 <= wanted.span_ms_max < entry.max_timestamp - since
        if total > wanted.target_bytes or is_long or segments > REPLACED_MAX:
            break
        if entry.last - base > OFFSETS_MAX:
            break
        is_whole = count >= RUN_MIN or total >= wanted.target_bytes - wanted.small_bytes
        if count > 1 and is_whole and total >= GROWTH * largest:
            best = count
    return best


def sources_of(entry: Entry) -> int:
    """How many uploads an entry stands for."""
    return 1 if entry.replaces is None else entry.replaces.segments
