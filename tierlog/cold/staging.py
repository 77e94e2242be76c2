"""Making a segment object out of a sealed segment: checked, hashed, ready to be sent.

Blocks, so it runs in a thread. What it makes holds no more than the tail of the object in memory:
the batches are read from the disk again while they are sent.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierlog.cold.choosing import Upcoming
from tierlog.cold.entry import Entry
from tierlog.cold.segment_scan import SegmentScan
from tierlog.cold.segmentfile import PartBody, PartCrcs, SegmentBody, SegmentFile
from tierlog.env import Disk
from tierlog.hot.epochs import EpochStart

if TYPE_CHECKING:
    import asyncio


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


class Ahead:
    """The staging of the segment that is next, begun while another one is sent."""

    def __init__(self) -> None:
        self._of: Upcoming | None = None
        self._task: "asyncio.Task[Staged] | None" = None

    def begin(self, of: Upcoming, task: "asyncio.Task[Staged]") -> None:
        self.drop()
        self._of, self._task = of, task

    def take(self, wanted: Upcoming) -> "asyncio.Task[Staged] | None":
        """None if it is another one, or none at all."""
        task = self._task
        if task is None or self._of != wanted:
            self.drop()
            return None
        self._of = self._task = None
        return task

    def drop(self) -> None:
        """Nobody wants it any more; a thread that reads the file comes to its end by itself."""
        if self._task is not None:
            self._task.add_done_callback(_unheard)
            self._task.cancel()
        self._of = self._task = None


def _unheard(task: "asyncio.Task[Staged]") -> None:
    if not task.cancelled():
        task.exception()


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
    crcs = PartCrcs(part_bytes) if file.size > single_bytes_max else None
    for piece in file.check():
        scan.feed(piece)
        if crcs is not None:
            crcs.feed(piece)
    tail = scan.finish(key=key, producers=producers, max_append_ms=max_append_ms, lineage=lineage)
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
