"""Making a segment object out of a sealed segment: checked, hashed, ready to be sent.

Blocks, and keeps a processor busy: a large segment is scanned in a worker process, which yields to
everybody else, a small one in a thread. In a thread of this process the scan would share Python's
one lock with the loop: where batches are small, everybody who waits for an answer would feel it.

What it makes holds no more than the tail of the object in memory: the batches are read from the
disk again while they are sent.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tierlog.cold.entry import Entry
from tierlog.cold.segment_scan import SegmentScan, Tail
from tierlog.cold.segmentfile import PartBody, PartCrcs, SegmentBody, SegmentFile
from tierlog.env import Disk, Env, LocalDisk, WorkerLost
from tierlog.hot.epochs import EpochStart
from tierlog.types import Offset, Position

if TYPE_CHECKING:
    import asyncio

    from tierlog.cold.choosing import Upcoming

logger = logging.getLogger(__name__)

WORKER_BYTES_MIN: Final = 1 << 20
"""Smaller segments are scanned in less time than another process takes to hear of them."""

HANGS_S: Final = 60.0
HANGS_BYTES_PER_SECOND: Final = 2 << 20
"""A worker that is slower than this, start included, is not slow: a gigabyte has ten minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a segment object says of where it belongs."""

    topic: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be made of which bytes. Can be told to another process."""

    path: str
    position: Position
    """Of the first batch that goes along."""
    end: int
    base: Offset
    last: Offset
    label: Label
    key: str
    producers: bytes
    lineage: tuple[EpochStart, ...]
    max_append_ms: int
    part_bytes: int
    """Of each part, where the object is sent in parts; 0: it is not."""
    gaps: tuple[tuple[Offset, Offset], ...] | None = ()
    """None: whatever there are, in a log that was compacted."""
    sources: bytes = b""
    """What it is merged of, if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    tail: Tail
    part_crcs: tuple[int, ...]
    uncached: frozenset[int]


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
        self._task: asyncio.Task[Staged] | None = None

    def begin(self, of: "Upcoming", task: "asyncio.Task[Staged]") -> None:
        self.drop()
        self._of, self._task = of, task

    def take(self, wanted: "Upcoming") -> "asyncio.Task[Staged] | None":
        """None if it is another one, or none at all."""
        task = self._task
        if task is None or self._of != wanted:
            self.drop()
            return None
        self._of = self._task = None
        return task

    def drop(self) -> None:
        """Nobody wants it any more; whoever reads the file comes to its end by itself."""
        if self._task is not None:
            self._task.add_done_callback(_unheard)
            self._task.cancel()
        self._of = self._task = None


def _unheard(task: "asyncio.Task[Staged]") -> None:
    if not task.cancelled():
        task.exception()


async def stage(env: Env, plan: Plan) -> Staged:
    """Raises `SegmentUnsound` if the bytes are not those that were acknowledged (U1)."""
    scanned = await _scanned(env, plan)
    file = SegmentFile(
        env.disk, plan.path, start=plan.position, end=plan.end, uncached=scanned.uncached
    )
    body = SegmentBody(file, scanned.tail.data, crc32c=scanned.tail.entry.crc32c)
    parts = _parts(body, scanned.part_crcs, plan.part_bytes) if plan.part_bytes else []
    return Staged(entry=scanned.tail.entry, body=body, parts=tuple(parts))


async def _scanned(env: Env, plan: Plan) -> Scanned:
    # Another process sees no disk but this machine's.
    size = plan.end - plan.position
    if size >= WORKER_BYTES_MIN and isinstance(env.disk, LocalDisk):
        limit_s = HANGS_S + size / HANGS_BYTES_PER_SECOND
        try:
            return await env.tasks.in_process(scan_local, plan, limit_s=limit_s)
        except WorkerLost as lost:
            # It hung, or somebody ended it: the next one begins anew.
            logger.warning("%s is scanned by this process: %s", plan.path, lost)
    return await env.tasks.in_thread(scan, env.disk, plan)


def scan_local(plan: Plan) -> Scanned:
    """In a worker process."""
    return scan(LocalDisk(), plan)


def scan(disk: Disk, plan: Plan) -> Scanned:
    file = SegmentFile(disk, plan.path, start=plan.position, end=plan.end)
    scan = SegmentScan(
        topic=plan.label.topic,
        topic_id=plan.label.topic_id,
        partition=plan.label.partition,
        base=plan.base,
        last=plan.last,
        size=file.size,
        gaps=plan.gaps,
    )
    crcs = PartCrcs(plan.part_bytes) if plan.part_bytes else None
    for piece in file.check():
        scan.feed(piece)
        if crcs is not None:
            crcs.feed(piece)
    tail = scan.finish(
        key=plan.key,
        producers=plan.producers,
        max_append_ms=plan.max_append_ms,
        lineage=plan.lineage,
        sources=plan.sources,
    )
    if crcs is not None:
        crcs.feed(tail.data)
    return Scanned(
        tail=tail,
        part_crcs=() if crcs is None else crcs.finish(),
        uncached=file.uncached,
    )


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
