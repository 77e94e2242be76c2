"""Whole batches in verified bytes: where the sought one begins, and where an answer ends.

The bytes are those that were uploaded (their blocks passed their CRCs); headers are compared with
each other and with the index all the same, since it costs nothing and the batch's own CRC does not
cover its offset (U9).

A walk on the loop reads only what is in the page cache; `off_loop` goes on in a thread from there.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from tierlog.env import Tasks
from tierlog.fetchproxy.errors import ChunkCorrupt
from tierlog.fetchproxy.pieces import Run
from tierlog.fetchproxy.plan import Place
from tierlog.fetchproxy.segmentindex import SegmentIndex
from tierlog.records.batch import HEADER_BYTES
from tierlog.records.header import MAGIC, BatchHeader, parse_header
from tierlog.types import Bytes, Offset, Position

LOOK_BYTES = 8 << 10
"""Read at once on a walk: an index interval and a bit."""
WAITING_BYTES = 64 << 10
"""Read at once in a thread: it was dear to get there."""

LARGE_BYTES = 512 << 10
"""Answers of this size and more end where the index says: an interval (64 KiB) less, and hundreds
of small batches need not be walked over each time."""


T = TypeVar("T")


class WouldWait(Exception):
    """The next bytes are not in memory: not for the loop to read."""


class Cut(NamedTuple):
    """Whole batches at [start, stop) of the object."""

    start: Position
    stop: Position
    base_offset: Offset
    next_offset: Offset


class Walk:
    """Headers of a run, one after the other."""

    __slots__ = ("_data", "_key", "_run", "_start", "may_wait")

    def __init__(self, key: str, run: Run) -> None:
        self._key = key
        self._run = run
        self._data, self._start = run.in_memory
        self.may_wait = False
        """For the disk, as a thread may."""

    def at(self, position: Position) -> BatchHeader | None:
        """None where the run ends before the header does. May raise `WouldWait`."""
        place = position - self._start
        if not 0 <= place <= len(self._data) - HEADER_BYTES:
            self._data = memoryview(self._read(position))
            self._start, place = position, 0
            if len(self._data) < HEADER_BYTES:
                return None
        header = parse_header(self._data, place)
        if (
            header.magic != MAGIC
            or header.size_bytes < HEADER_BYTES
            or header.last_offset_delta < 0
        ):
            raise self.wrong(position, "no batch begins here")
        return header

    def _read(self, position: Position) -> Bytes:
        if self.may_wait:
            return self._run.pread(WAITING_BYTES, position)
        if not self._run.is_cached(LOOK_BYTES, position):
            raise WouldWait
        return self._run.pread(LOOK_BYTES, position)

    def following(self, position: Position, expected: Offset) -> BatchHeader | None:
        """The header of a batch that continues the walk; a recovery may have left a gap there."""
        header = self.at(position)
        if header is not None and header.base_offset < expected:
            reason = f"offset {header.base_offset}, expected {expected} or more"
            raise self.wrong(position, reason)
        return header

    def wrong(self, position: int, reason: str) -> ChunkCorrupt:
        return ChunkCorrupt(self._key, position=position, reason=reason)


async def off_loop(tasks: Tasks, walk: Walk, look: Callable[[], T]) -> T:
    """What `look` finds on the walk: at once where all of it is in memory, else by a thread."""
    try:
        return look()
    except WouldWait:
        walk.may_wait = True
    try:
        return await tasks.in_thread(look)
    finally:
        walk.may_wait = False


def find_batch(
    walk: Walk, place: Place, offset: Offset, *, base: Offset
) -> tuple[Position, BatchHeader]:
    """The batch that holds `offset`, or the first behind it; none is below `base`."""
    position = place.low
    header = walk.at(position)
    if header is None or (
        header.base_offset < base if place.low_last < 0 else header.last_offset != place.low_last
    ):
        raise walk.wrong(position, "the index names another batch")
    while header.last_offset < offset:
        position = Position(position + header.size_bytes)
        header = walk.following(position, header.next_offset)
        if header is None or position >= place.high:
            raise walk.wrong(position, f"offset {offset} is not where the index says")
    return position, header


def cut(
    walk: Walk,
    run: Run,
    index: SegmentIndex,
    place: Place,
    *,
    offset: Offset,
    base: Offset,
    bytes_max: int,
) -> Cut:
    """Whole batches of the run from the one that holds `offset`: at most `bytes_max`, one at least.

    They end with the piece that they begin in, unless the first lies across its border: then it and
    what follows up to the limit lie in two of them or more.
    """
    start, first = find_batch(walk, place, offset, base=base)
    first_end = start + first.size_bytes
    if first_end > run.end:
        raise walk.wrong(start, f"the batch ends at {first_end}, behind its place")
    border = run.piece_at(start).span.end
    end = border if first_end <= border else run.end
    limit = min(max(start + bytes_max, first_end), end)
    position, header = _near(walk, index, start, first, limit)
    next_offset = header.base_offset
    if bytes_max >= LARGE_BYTES and position > start and limit < end:
        return Cut(start, position, first.base_offset, next_offset)
    following: BatchHeader | None = header
    while following is not None and position + following.size_bytes <= limit:
        position = Position(position + following.size_bytes)
        next_offset = following.next_offset
        following = (
            walk.following(position, next_offset) if position + HEADER_BYTES <= limit else None
        )
    return Cut(start, position, first.base_offset, next_offset)


def _near(
    walk: Walk, index: SegmentIndex, start: Position, first: BatchHeader, limit: int
) -> tuple[Position, BatchHeader]:
    """The last batch that the index knows before `limit`, or the first one."""
    known = index.at_or_before(limit - HEADER_BYTES)
    if known is None or known.position <= start:
        return start, first
    header = walk.at(known.position)
    if header is None or header.last_offset != known.last_offset:
        raise walk.wrong(known.position, "the index names another batch")
    return known.position, header
