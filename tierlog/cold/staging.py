"""Making a segment object out of a sealed segment: checked, hashed, ready to be sent.

Blocks, so it runs in a thread. What it makes holds no more than the tail of the object in memory:
the batches are read from the disk again while they are sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tierlog.cold.choosing import Upcoming
from tierlog.cold.entry import Entry
from tierlog.cold.segment_scan import SegmentScan, Tail
from tierlog.cold.segmentfile import PartBody, PartCrcs, SegmentBody, SegmentFile
from tierlog.env import Disk
from tierlog.hot.epochs import EpochStart


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a segment object says of where it belongs."""

    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    entry: Entry
    """Its key is that of the first attempt to send it."""
    body: SegmentBody
    parts: tuple[PartBody, ...]
    """The same bytes in parts, where they are too many for one request."""


def stage(
    disk: Disk,
    upcoming: Upcoming,
    label: Label,
    *,
    key: str,
    producers: bytes,
    lineage: tuple[EpochStart, ...],
    max_append_ms: int,
    single_bytes_max: int,
    part_bytes: int,
) -> Staged:
    """Raises `SegmentUnsound` if the bytes are not those that were acknowledged (U1)."""
    segment = upcoming.segment
    file = SegmentFile(disk, segment.path, start=upcoming.position, end=segment.size)
    scan = SegmentScan(
        topic=label.topic,
        topic_id=label.topic_id,
        partition=label.partition,
        base=upcoming.base,
        last=upcoming.last,
        size=file.size,
    )
    finish = partial(
        scan.finish, key=key, producers=producers, max_append_ms=max_append_ms, lineage=lineage
    )
    return scanned(file, scan, finish, single_bytes_max=single_bytes_max, part_bytes=part_bytes)


def scanned(
    file: SegmentFile,
    scan: SegmentScan,
    finish: Callable[[], Tail],
    *,
    single_bytes_max: int,
    part_bytes: int,
) -> Staged:
    """The object of a file of batches, which is read once for it. `finish` is the scan's own."""
    crcs = PartCrcs(part_bytes) if file.size > single_bytes_max else None
    for piece in file.check():
        scan.feed(piece)
        if crcs is not None:
            crcs.feed(piece)
    tail = finish()
    body = SegmentBody(file, tail.data, crc32c=tail.entry.crc32c)
    parts: tuple[PartBody, ...] = ()
    if crcs is not None:
        crcs.feed(tail.data)
        parts = tuple(_parts(body, crcs.finish(), part_bytes))
    return Staged(entry=tail.entry, body=body, parts=parts)


def _parts(body: SegmentBody, crcs: tuple[int, ...], part_bytes: int) -> list[PartBody]:
    return [
        PartBody(
            body,
            start=number * part_bytes,
            end=min((number + 1) * part_bytes, body.size),
            crc32c=crc,
        )
        for number, crc in enumerate(crcs)
    ]
