"""What always holds of a manifest, by name.

Checked before every publish, so that a bug of ours ends as an error and not in the bucket, and when
a HEAD is read that others wrote (U9). Of pages only their references are looked at: pages do not
change, and `codec.check_page` looks inside when one is opened to be built upon.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from tierlog.cold import chain
from tierlog.cold.codec import GARBAGE_MAX, LISTED_MAX
from tierlog.cold.entry import Entry
from tierlog.cold.entry_codec import EPOCHS_MAX, REPLACED_MAX
from tierlog.cold.errors import ColdCorrupt, InvariantBroken
from tierlog.cold.fields import is_digest
from tierlog.cold.garbage_codec import EXPIRED_MAX
from tierlog.cold.head import MERGE, Head, PageRef
from tierlog.cold.layout import parse_page_key, parse_segment_key

Row = Entry | PageRef


def check(head: Head, *, previous: Head | None) -> None:
    """`InvariantBroken` names the first that does not hold. `previous` is the HEAD that this one
    replaces; None for a first one, or where only the value itself is in question."""
    for name, holds in OF_ONE.items():
        for reason in holds(head):
            raise InvariantBroken(name, reason)
    if previous is not None:
        for name, follows in OF_TWO.items():
            for reason in follows(head, previous):
                raise InvariantBroken(name, reason)


def rows(head: Head) -> tuple[Row, ...]:
    """Everything that is listed, in the order of offsets."""
    return (*head.indexes, *head.leaves, *head.entries)


# Of one HEAD. Each yields what is wrong.


def _tiling(head: Head) -> Iterator[str]:
    """What is listed lies end to end and ends at `next_offset`; skips are the only gaps."""
    skipped = {skip.start: skip.end for skip in head.skips}
    listed = rows(head)
    for one, two in pairwise(listed):
        if skipped.get(one.next_offset, one.next_offset) != two.base:
            yield f"behind offset {one.next_offset} comes {two.base}"
    if listed:
        end = listed[-1].next_offset
        if skipped.get(end, end) != head.next_offset:
            yield f"it lists up to {end} and says {head.next_offset}"


def _chain(head: Head) -> Iterator[str]:
    """From the anchor, through the references, every entry's value follows from the one before."""
    before = head.chain_anchor
    if not is_digest(before):
        yield "the anchor is no SHA-256"
        return
    for ref in (*head.indexes, *head.leaves):
        if ref.chain_before != before:
            yield f"it breaks at the page of offset {ref.base}"
        before = ref.chain_after
    try:
        chain.check(before, head.entries, key="HEAD")
    except ColdCorrupt as fault:
        yield fault.reason


def _totals(head: Head) -> Iterator[str]:
    """Records and bytes are those of what is listed, less what of the first row is garbage: how
    much that is, only the row's own content tells."""
    listed = rows(head)
    records = [row.records for row in listed]
    sizes = [row.size if isinstance(row, Entry) else row.bytes for row in listed]
    border = head.garbage_end if head.garbage_end >= 0 else head.log_start
    first = 1 if listed and listed[0].base < border else 0
    for what, total, parts in (("records", head.records, records), ("bytes", head.bytes, sizes)):
        if not sum(parts[first:]) <= total <= sum(parts):
            yield f"{total} {what} are not those of what is listed, {sum(parts)}"


def _keys(head: Head) -> Iterator[str]:
    """A key says what it names, and nothing is named twice or is garbage as well."""
    for entry in head.entries:
        name = parse_segment_key(entry.key)
        if name is None or (name.base, name.last) != (entry.base, entry.last):
            yield f"{entry.key} is not the key of [{entry.base}, {entry.next_offset})"
    for ref in (*head.indexes, *head.leaves):
        page = parse_page_key(ref.key)
        if page is None or page.first != ref.base:
            yield f"{ref.key} is not the key of a page that begins at {ref.base}"
    listed = [row.key for row in rows(head)]
    garbage = {one.key for one in head.garbage}
    if len(set(listed)) < len(listed) or garbage.intersection(listed):
        yield "an object is named twice, or is garbage and listed"


def _epochs(head: Head) -> Iterator[str]:
    """Leader epochs rise, and the writer's is not below them."""
    for one, two in pairwise(head.leader_epochs):
        if one.leader_epoch >= two.leader_epoch or one.start >= two.start:
            yield f"{two} comes behind {one}"
    if head.leader_epochs and head.leader_epochs[-1].leader_epoch > head.writer.leader_epoch:
        yield f"leader epoch {head.leader_epochs[-1].leader_epoch} is above the writer's"
    if head.leader_epochs and head.leader_epochs[-1].start >= head.next_offset:
        yield f"an epoch starts at {head.leader_epochs[-1].start}, behind the end"


def _bounds(head: Head) -> Iterator[str]:
    """Lists are not longer than readers take."""
    limits = {
        "entries": LISTED_MAX,
        "leaves": LISTED_MAX,
        "indexes": LISTED_MAX,
        "holds": LISTED_MAX,
        "skips": LISTED_MAX,
        "garbage": GARBAGE_MAX,
        "expired": EXPIRED_MAX,
        "leader_epochs": EPOCHS_MAX,
    }
    for name, limit in limits.items():
        if len(getattr(head, name)) > limit:
            yield f"{len(getattr(head, name))} {name}, readers take {limit}"
    for entry in head.entries:
        if entry.replaces is not None and not 2 <= entry.replaces.segments <= REPLACED_MAX:
            yield f"{entry.key} replaces {entry.replaces.segments}, readers take {REPLACED_MAX}"


def _start(head: Head) -> Iterator[str]:
    """Nothing above the log start is missing below what is listed."""
    listed = rows(head)
    first = listed[0].base if listed else head.next_offset
    skipped = any(skip.start <= head.log_start < skip.end for skip in head.skips)
    if first > head.log_start and not skipped:
        yield f"the log starts at {head.log_start}, the first that is listed is {first}"


def _expired(head: Head) -> Iterator[str]:
    """Garbage is what nobody reads: it lies before the log start, and so does `garbage_end`. Its
    rows are not listed, but for a page that lists later ones as well."""
    end = head.garbage_end
    if end > head.log_start:
        yield f"garbage up to {end}, the log starts at {head.log_start}"
    yield from (
        f"{row.key} is listed and ends before {end}" for row in rows(head) if row.next_offset <= end
    )
    for one in head.garbage:
        name = parse_segment_key(one.key)
        if name is not None and one.why not in ("", MERGE) and name.last >= head.log_start:
            yield f"{one.key} is garbage, the log starts at {head.log_start}"
        if one.segments_from > end:
            yield f"segments from {one.segments_from} on are garbage, which ends at {end}"
    ends = [end, *(one.end for one in head.expired)]
    if any(one >= two for one, two in pairwise(ends)) or ends[-1] > head.log_start:
        yield f"the reasons for {head.log_start} do not rise to it: {ends}"


# Of a HEAD and the one it replaces.


def _version(head: Head, previous: Head) -> Iterator[str]:
    """Each commit is one version more, with a nonce of its own."""
    if head.version != previous.version + 1:
        yield f"version {head.version} comes behind {previous.version}"
    if head.nonce == previous.nonce:
        yield "the nonce is that of the commit before"


def _identity(head: Head, previous: Head) -> Iterator[str]:
    """It stays the manifest of one partition, of one cluster's lives in order."""
    if (head.topic_id, head.partition) != (previous.topic_id, previous.partition):
        yield f"it was of {previous.topic_id}/{previous.partition}"
    if head.incarnation.number < previous.incarnation.number:
        yield f"incarnation {head.incarnation.number} comes behind {previous.incarnation.number}"
    if head.incarnation.number == previous.incarnation.number and head.incarnation.id != (
        previous.incarnation.id
    ):
        yield f"incarnation {head.incarnation.number} has two ids"


def _writer(head: Head, previous: Head) -> Iterator[str]:
    """U3, U4: a writer follows an older one, or is the same in both parts."""
    if head.writer == previous.writer or head.incarnation.number > previous.incarnation.number:
        return
    if head.writer.leader_epoch <= previous.writer.leader_epoch:
        yield f"{head.writer} comes behind {previous.writer}"


def _ends(head: Head, previous: Head) -> Iterator[str]:
    """Neither end goes back: one offset names one record for ever."""
    if head.next_offset < previous.next_offset:
        yield f"next_offset goes back from {previous.next_offset} to {head.next_offset}"
    if head.log_start < previous.log_start:
        yield f"log_start goes back from {previous.log_start} to {head.log_start}"


def _history(head: Head, previous: Head) -> Iterator[str]:
    """Where both list an end, the chain has the same value there: nothing behind it changed."""
    before = {row.next_offset: _chain_at(row) for row in rows(previous)}
    for row in rows(head):
        if before.get(row.next_offset, _chain_at(row)) != _chain_at(row):
            yield f"what ends at {row.next_offset} was another"
    known = {row.next_offset for row in rows(head)}
    kept = [row for row in previous.entries if row.base >= head.log_start]
    inline = head.entries[0].base if head.entries else head.next_offset
    merged = [one for one in head.entries if one.replaces is not None]
    for row in kept:
        if row.base >= inline and row.next_offset not in known and not _is_within(row, merged):
            yield f"the entry of offset {row.base} is gone"


def _links(head: Head, previous: Head) -> Iterator[str]:
    """What is new and replaces others has their offsets and records, and they are garbage now."""
    known = {row.key for row in previous.entries}
    garbage = {one.key for one in head.garbage}
    for entry in head.entries:
        if entry.replaces is None or entry.key in known:
            continue
        gone = [row for row in previous.entries if _is_within(row, [entry])]
        if not gone or (gone[0].base, gone[-1].last) != (entry.base, entry.last):
            yield f"{entry.key} replaces what was not there"
        elif sum(row.records for row in gone) != entry.records:
            yield f"{entry.key} has other records than what it replaces"
        for row in gone:
            if row.key not in garbage:
                yield f"{row.key} was replaced, and is not garbage"
    records = {(row.base, row.next_offset): row.records for row in rows(previous)}
    for ref in (*head.indexes, *head.leaves):
        if records.get((ref.base, ref.next_offset), ref.records) != ref.records:
            yield f"the page of offset {ref.base} has other records than before"


def _is_within(row: Entry, merged: Sequence[Entry]) -> bool:
    return any(one.base <= row.base and row.last <= one.last for one in merged)


def _holds(head: Head, previous: Head) -> Iterator[str]:
    """U7b: holds and policy change together; what is held is not expired."""
    if head.policy_version < previous.policy_version:
        yield f"policy version goes back to {head.policy_version}"
    if (head.holds, head.policy) != (previous.holds, previous.policy) and (
        head.policy_version == previous.policy_version
    ):
        yield "holds or policy changed without a new policy version"
    if head.log_start == previous.log_start:
        return
    for hold in head.holds:
        if hold.start < head.log_start and hold.end > previous.log_start:
            yield f"log_start {head.log_start} passes into hold {hold.id}"


def _leaving(head: Head, previous: Head) -> Iterator[str]:
    """What leaves by expiry is garbage in the same commit, and garbage leaves when it may be
    deleted, not before. (Pages that were only replaced may be forgotten.)"""
    if head.garbage_end < previous.garbage_end:
        yield f"garbage_end goes back from {previous.garbage_end} to {head.garbage_end}"
    garbage = {one.key for one in head.garbage}
    for row in rows(previous):
        if row.next_offset <= head.garbage_end and row.key not in garbage:
            yield f"{row.key} left, and is not garbage"
    for one in previous.garbage:
        if one.why and one.key not in garbage and head.published_ms < one.not_before_ms:
            yield f"{one.key} left the garbage before its time"


def _chain_at(row: Row) -> str:
    return row.chain if isinstance(row, Entry) else row.chain_after


OF_ONE: dict[str, Callable[[Head], Iterator[str]]] = {
    "bounds": _bounds,
    "tiling": _tiling,
    "start": _start,
    "keys": _keys,
    "chain": _chain,
    "totals": _totals,
    "epochs": _epochs,
    "expired": _expired,
}
OF_TWO: dict[str, Callable[[Head, Head], Iterator[str]]] = {
    "identity": _identity,
    "writer": _writer,
    "version": _version,
    "ends": _ends,
    "history": _history,
    "links": _links,
    "holds": _holds,
    "leaving": _leaving,
}
