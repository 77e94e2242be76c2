"""Whether an object in the bucket holds the very batches that the local log has.

A data directory can be copied, and each copy goes on by itself: then the bucket has other records
under the same offsets, and offsets, sizes and leader epochs may all agree. The entry's Merkle root
is over the bytes of the batches, so one reading of the local file tells.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tierlog.cold.entry import Entry
from tierlog.cold.errors import SegmentUnsound
from tierlog.cold.publisher import Place
from tierlog.cold.segment_scan import SegmentScan
from tierlog.cold.segmentfile import SegmentFile
from tierlog.cold.troubles import LocalDamaged, LogDiffers
from tierlog.env import Disk, Env
from tierlog.hot import Log
from tierlog.records.errors import ChecksumMismatch
from tierlog.types import Offset


class Stretch(NamedTuple):
    """Bytes of one `.log` file."""

    path: str
    start: int
    end: int


async def require_same(env: Env, log: Log, place: Place, entry: Entry) -> None:
    """Raises `LogDiffers` unless the local batches of the entry's offsets are those of the object,
    `LocalDamaged` where that cannot be said: some of them are broken, or gone. Read in a thread."""
    if (damage := log.damage_in(entry.base, entry.next_offset)) is not None:
        raise LocalDamaged(log.path, start=damage[0], end=damage[1], reason="found at the start")
    stretches = _local(log, entry)
    work = partial(_difference, env.disk, stretches, place, entry)
    try:
        reason = await env.tasks.in_thread(work)
    except ChecksumMismatch as fault:
        raise LocalDamaged(
            log.path, start=entry.base, end=entry.next_offset, reason=str(fault)
        ) from fault
    if reason is not None:
        raise LogDiffers(log.path, entry.key, reason)


def _local(log: Log, entry: Entry) -> list[Stretch]:
    """Where the entry's offsets lie here."""
    found: list[Stretch] = []
    end = entry.base
    for segment in log.segments:
        if segment.next_offset <= end or segment.base_offset >= entry.next_offset:
            continue
        if segment.base_offset > end:
            break
        start = _position(log, entry.base) if segment.base_offset < entry.base else 0
        stop: int = segment.size
        if segment.next_offset > entry.next_offset:
            stop = _position(log, entry.next_offset)
        found.append(Stretch(segment.path, start, stop))
        end = min(segment.next_offset, entry.next_offset)
    if end < entry.next_offset:
        raise LogDiffers(
            log.path, entry.key, f"it holds offset {end} as well, which cannot be compared"
        )
    return found


def _position(log: Log, offset: Offset) -> int:
    return log.segments.place_of(offset)[2]


def _difference(disk: Disk, stretches: Sequence[Stretch], place: Place, entry: Entry) -> str | None:
    scan = SegmentScan(
        topic=place.topic,
        topic_id=place.topic_id,
        partition=place.partition,
        base=entry.base,
        last=entry.last,
        size=sum(one.end - one.start for one in stretches),
        gaps=None,  # Whether they are those of the object its Merkle root tells.
    )
    try:
        for path, start, end in stretches:
            for piece in SegmentFile(disk, path, start=start, end=end).check():
                scan.feed(piece)
        tail = scan.finish(key=entry.key, producers=b"", max_append_ms=entry.max_append_ms)
    except SegmentUnsound as fault:
        if isinstance(fault.__cause__, ChecksumMismatch):
            raise fault.__cause__ from fault
        return str(fault)
    here = tail.entry
    if (here.records, here.data_bytes) != (entry.records, entry.data_bytes):
        return (
            f"{here.records} records in {here.data_bytes} bytes here, "
            f"{entry.records} in {entry.data_bytes} there"
        )
    return None if here.merkle_root == entry.merkle_root else "the records are others"
