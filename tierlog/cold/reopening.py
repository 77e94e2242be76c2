"""Opening the local log of a partition that has a prefix in the bucket.

The bucket's prefix counts (storage rule 5.1). A log that ends before it, or was written by other
leaders, is put aside, for people to look at, and begun anew where the bucket ends: offsets that are
published are never given out again. So is one whose files are gone. Where that is comes from the
bucket itself, and HEAD is claimed before: the local copy may be older than what was published, and
a commit of the process before this one may still be on its way. Where the log goes on from the
bucket, which is every ordinary start, no store is asked.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tierlog.cold.choosing import check_agrees
from tierlog.cold.head import Head
from tierlog.cold.prefix import ColdPrefix
from tierlog.cold.troubles import LogDiverged
from tierlog.hot import Log, LogDirectory, LogSettings, Seed, names
from tierlog.objectstore.port import ObjectStore, Span
from tierlog.types import Offset, Position

logger = logging.getLogger(__name__)

Claimed: TypeAlias = Callable[[], Awaitable[tuple[Head, Seed] | None]]
"""HEAD, which nobody else moves any more, and what is known of the past of a log that begins where
it ends. None: nothing was ever published."""


async def open_tiered(
    directory: LogDirectory,
    name: str,
    settings: LogSettings,
    head: Head | None,
    claimed: Claimed,
    *,
    is_first: bool,
) -> Log:
    """Open the log, or begin it where the bucket ends; `head` is what is known of it here. What
    `claimed` raises passes: open it again. `is_first`: nobody has opened the log before."""
    if await _is_begun(directory, name):
        if head is None:
            return await directory.open_log(name, settings)
        start = max(head.next_offset, head.log_start)
        log = await directory.open_log(name, settings, start=start)
        try:
            check_agrees(log, head)
        except LogDiverged as fork:
            await log.close()
            kept = await directory.put_aside(name)
            logger.error("%s; it is kept as %s and begun anew", fork, kept)  # noqa: TRY400  it is told
        else:
            return log
    elif head is None and is_first:
        return await directory.open_log(name, settings)
    if (found := await claimed()) is None:
        return await directory.open_log(name, settings)
    head, seed = found
    start = max(head.next_offset, head.log_start)
    return await directory.open_log(name, settings, start=start, seed=seed)


async def _is_begun(directory: LogDirectory, name: str) -> bool:
    """Whether the log was ever vouched for: one that was cut off before that is begun again."""
    path = f"{directory.path}/{name}/{names.CHECKPOINT}"
    return await directory.env.tasks.in_thread(directory.disk.exists, path)


async def seed_from(store: ObjectStore, prefix: ColdPrefix, head: Head) -> Seed:
    """The producers at the end of the last segment in the bucket, and the leader epochs up to it.

    The snapshot has a checksum of its own, which the log checks when it is planted.
    """
    rows = head.entries or head.leaves or head.indexes
    entry = await prefix.entry_for(Offset(rows[-1].next_offset - 1)) if rows else None
    if entry is None:
        return Seed(epochs=head.leader_epochs)
    position, size = entry.sections["producers"]
    span = Span(Position(position), Position(position + size))
    got = await store.get(prefix.full_key(entry.key), span=span, version_id=entry.version_id)
    return Seed(producers=bytes(got.data), epochs=head.leader_epochs)
