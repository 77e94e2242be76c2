"""Whether a HEAD is older than the objects beside it: what a roll-back leaves behind.

A HEAD that was put back is sound in itself. What was published behind its end is still there,
though: segments that begin where it ends. A live node has such segments, too, for the moment
between sending and publishing, and a node that died then leaves them until it is started again.
They are told apart by time and number:

- HEAD was written long after a segment of its own or a later leader, and does not list it. A leader
  that writes HEAD lists what it has sent.
- They are a day old: no upload takes that long.
- They are more than one publish ever takes along.

A roll-back over changes that sent nothing (a claim, a moved log start) cannot be told from the
bucket alone. The node that made them can tell: it has a copy of each HEAD.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tierlog.cold.errors import ColdCorrupt
from tierlog.cold.layout import SegmentName, parse_segment_key
from tierlog.cold.rebuild import read_footer
from tierlog.objectstore.errors import NoSuchObject
from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tierlog.cold.head import Head
    from tierlog.cold.layout import PartitionKeys
    from tierlog.objectstore.port import ObjectStore, Stat

WRITTEN_LATER_MS = 15 * 60_000
"""Between sending a segment and publishing it lie seconds; a change of the log start may come in
between, and a minute's pause after a failure."""
OLD_MS = 24 * 3_600_000
PUBLISH_SEGMENTS_MAX = 32
"""`commit.segments.max` cannot be set higher."""


class Behind(NamedTuple):
    """A segment behind HEAD's end."""

    key: str
    """Relative to the partition."""
    name: SegmentName
    modified_ms: int


async def behind(
    store: ObjectStore, keys: PartitionKeys, head: Head, listed: Mapping[str, Stat]
) -> list[Behind]:
    """A run of segments from HEAD's end on that its writer, or a later one, sent. Each says of
    itself that it belongs there."""
    run: list[Behind] = []
    end = head.next_offset
    by_base = _by_base(head, listed)
    while end in by_base:
        whole = [one for one in by_base[end] if await _is_whole(store, keys, one)]
        if not whole:
            break
        run.append(max(whole, key=lambda one: one.name.last))
        end = Offset(run[-1].name.last + 1)
    return run


def judge(run: Sequence[Behind], *, head_ms: int, now_ms: int) -> str | None:
    """Why HEAD is older than these. None: it need not be."""
    first_ms = run[0].modified_ms
    if len(run) > PUBLISH_SEGMENTS_MAX:
        return "more than one publish takes along"
    if first_ms < 0:
        return None  # The store does not tell.
    if head_ms - first_ms > WRITTEN_LATER_MS:
        return f"sent {(head_ms - first_ms) // 60_000} minutes before HEAD was written"
    if now_ms - first_ms > OLD_MS:
        return f"sent {(now_ms - first_ms) // 3_600_000} hours ago"
    return None


def _by_base(head: Head, listed: Mapping[str, Stat]) -> dict[Offset, list[Behind]]:
    found: dict[Offset, list[Behind]] = defaultdict(list)
    for key, stat in listed.items():
        name = parse_segment_key(key)
        if name is None or name.base < head.next_offset:
            continue
        if name.leader_epoch >= head.writer.leader_epoch:
            found[name.base].append(Behind(key, name, stat.modified_ms))
    return found


async def _is_whole(store: ObjectStore, keys: PartitionKeys, one: Behind) -> bool:
    try:
        footer = await read_footer(store, keys.full(one.key))
    except (ColdCorrupt, NoSuchObject):
        return False
    place = footer.topic_id, footer.partition, footer.base, footer.last
    return place == (keys.topic_id, keys.partition, one.name.base, one.name.last)
