"""What to upload next, and whether the local log may speak for the partition at all.

The bucket's prefix is authoritative: only committed offsets are ever uploaded, so a log that
disagrees with it below its end has lost or forked records and must not publish (storage rule 5.1).
"""

from typing import NamedTuple

from tierlog.cold.entry import Entry
from tierlog.cold.head import Head
from tierlog.cold.refusals import name_of
from tierlog.cold.troubles import LogDamaged, LogDiverged, LogGap
from tierlog.hot import Log, SealedSegment
from tierlog.hot.epochs import EpochStart, LeaderEpochs
from tierlog.types import Offset, Position


class Upcoming(NamedTuple):
    """A sealed segment, or the part of it that is not cold yet."""

    segment: SealedSegment
    base: Offset
    """Where the object begins: where the bucket ends, or the segment does, behind a gap."""
    position: Position
    """Of the first batch that goes along."""
    torn_from: Offset
    """Offsets from here to `base` never had a record: recovery cut off a torn write. None of them
    where this is `base`."""

    @property
    def last(self) -> Offset:
        return Offset(self.segment.next_offset - 1)


def upcoming(log: Log, end: Offset, *, deleted_to: Offset, of: str = "") -> Upcoming | None:
    """The sealed segment that follows what ends at `end`. None: nothing is ready. `of`: who asks.

    Offsets below `deleted_to` may be passed over (U10). Raises `LogDamaged` or `LogGap` where
    others are missing in between: a local start alone says nothing, drops move it too.
    """
    segment = next((one for one in log.sealed() if one.next_offset > end), None)
    if segment is None:
        return None
    base = segment.base_offset
    if base == end or end < base <= deleted_to:
        return Upcoming(segment, base, Position(0), base)  # In the second case by a skip (U10).
    if base < end:
        return _rest_of(log, segment, end, of)
    start = max(end, deleted_to)
    if start < log.log_start:
        raise LogGap(of or log.path, start=start, end=log.log_start)
    if (damage := log.damage_in(start, base)) is not None:
        raise LogDamaged(log.path, start=damage[0], end=damage[1], of=of)
    return Upcoming(segment, base, Position(0), end)


def _rest_of(log: Log, segment: SealedSegment, end: Offset, of: str) -> Upcoming:
    """Another leader rolled elsewhere: the object begins in the middle of the segment."""
    _, border, position = log.segments.place_of(end)
    if border != end:
        raise LogDiverged(
            log.path, f"offset {end}, where the bucket ends, is inside a batch here", of=of
        )
    return Upcoming(segment, end, position, end)


def published(log: Log, entry: Entry) -> Upcoming | None:
    """The sealed segment that an entry was made of, if it is still here."""
    segment = next((one for one in log.sealed() if one.next_offset == entry.next_offset), None)
    if segment is None or segment.base_offset > entry.base:
        return None
    if segment.base_offset == entry.base:
        return Upcoming(segment, entry.base, Position(0), entry.base)
    return _rest_of(log, segment, entry.base, "")


def backlog(log: Log, end: Offset) -> tuple[int, int]:
    """Bytes and count of the sealed segments that are not cold yet."""
    waiting = [one for one in log.sealed() if one.next_offset > end]
    return sum(one.size for one in waiting), len(waiting)


def lineage_of(log: Log, head: Head, base: Offset) -> tuple[EpochStart, ...]:
    """The partition's leader epochs up to the log's end; none where DeleteRecords cut into them."""
    if log.log_start > max(base, head.next_offset):
        return ()
    epochs = LeaderEpochs(head.leader_epochs)
    for leader_epoch, start in log.epochs.entries:
        epochs.note(leader_epoch, start)
    return epochs.entries


def check_goes_on(log: Log, head: Head | None) -> None:
    """Raises `LogGap` if records were dropped here for which the bucket does not answer: it shows
    an older HEAD than it had, or none any more, and this one must not be built upon."""
    start = log.trimmed_to
    if head is not None:
        start = max(start, head.log_start, head.next_offset)
    if log.log_start > start:
        raise LogGap(log.path, start=start, end=log.log_start)


def check_agrees(log: Log, head: Head) -> None:
    """Raises `LogDiverged` unless the log goes on where the bucket ends, by the same leaders."""
    if log.log_end < head.next_offset:
        raise LogDiverged(
            log.path,
            f"it ends at {log.log_end}, the bucket at {head.next_offset}: records are lost",
            of=name_of(head),
        )
    check_lineage(log, head, end=head.next_offset)


def check_lineage(log: Log, head: Head, *, end: Offset) -> None:
    """Raises `LogDiverged` unless the same leaders wrote the log and the bucket, up to `end`, which
    both reach. Else the same offsets hold other records here."""
    remote = LeaderEpochs(head.leader_epochs)
    start = max(log.log_start, head.log_start)
    marks = {start, *(one.start for one in (*head.leader_epochs, *log.epochs.entries))}
    places = {_behind_skips(head, one) for one in marks if one >= start}
    for offset in sorted(one for one in places if one < end):
        here, there = log.epochs.at(offset), remote.at(offset)
        if None not in (here, there) and here != there:
            raise LogDiverged(
                log.path,
                f"offset {offset} was written by leader epoch {here} here, {there} in the bucket",
                of=name_of(head),
            )


def _behind_skips(head: Head, offset: Offset) -> Offset:
    """The same, or the first offset behind it that the bucket may have a record of: who led in what
    was passed over, HEAD does not know."""
    for skip in head.skips:
        if skip.start <= offset < skip.end:
            offset = skip.end
    return offset
