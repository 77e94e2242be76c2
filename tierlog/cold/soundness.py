"""Where a sealed segment is damaged that cannot be uploaded, and where it is sound again.

Rot in a segment that is not in the bucket yet must not be uploaded (U1), and the records behind it
must not take its offsets. An operator who gives the damaged records up, by DeleteRecords, gets the
others uploaded: the object then begins with the batch that holds the new start (U10).
"""

from functools import partial
from typing import NamedTuple

from tierlog.cold.choosing import Upcoming
from tierlog.cold.errors import SegmentUnsound
from tierlog.cold.troubles import SegmentDamaged
from tierlog.env import Disk, Env
from tierlog.hot.resync import resync
from tierlog.hot.scan import scan
from tierlog.records.header import BatchHeader
from tierlog.types import Offset, Position


class Damage(NamedTuple):
    """`[start, end)` cannot be read; `position` is where that begins in the file."""

    start: Offset
    end: Offset
    position: Position
    reason: str


class Sound(NamedTuple):
    base: Offset
    position: Position
    """Of the batch that holds the offset asked for: from there on all is sound."""


async def rest_of(
    env: Env, following: Upcoming, *, deleted_to: Offset, fault: SegmentUnsound, of: str
) -> Upcoming:
    """What is sound of a segment whose damaged records were deleted. Raises `SegmentDamaged` where
    they were not; `fault` is why it could not be uploaded whole."""
    segment = following.segment
    found = await env.tasks.in_thread(
        partial(
            look,
            env.disk,
            segment.path,
            base=segment.base_offset,
            next_offset=segment.next_offset,
            size=segment.size,
            since=max(deleted_to, following.base),
        )
    )
    if isinstance(found, Sound) and found.base > following.base:
        return Upcoming(segment, found.base, found.position, found.base)
    if isinstance(found, Damage):
        start, end, _, reason = found
    else:  # Its batches are whole, and not those that the log should have.
        start, end, reason = following.base, segment.next_offset, str(fault)
    raise SegmentDamaged(segment.path, reason, start=start, end=end, of=of)


def look(
    disk: Disk, path: str, *, base: Offset, next_offset: Offset, size: int, since: Offset
) -> Damage | Sound | None:
    """The first damage at or behind `since`; else from where it is sound. None: no batch but the
    first holds `since`, and none is damaged behind it. Blocks."""
    held: list[Sound] = []

    def visit(header: BatchHeader, position: Position) -> None:
        if not held and header.last_offset >= since:
            held.append(Sound(header.base_offset, position))

    file = disk.open(path)
    try:
        position, expected, end = Position(0), base, Position(size)
        while position < end:
            state = scan(file, start=position, end=end, expected=expected, visit=visit)
            if state.fault is None:
                break
            found = resync(
                file, start=state.position, end=end, floor=state.next_offset, ceiling=next_offset
            )
            position, expected = (end, next_offset) if found is None else (found[0], _base(found))
            if expected > since:
                return Damage(state.next_offset, expected, state.position, str(state.fault))
    finally:
        file.close()
    return held[0] if held and held[0].base > base else None


def _base(found: tuple[Position, BatchHeader]) -> Offset:
    return found[1].base_offset
