"""Cutting a log back to a batch border, in the order that survives a crash.

First the records of how far it was durable are lowered, so that a restart half way does not take
the missing tail for damage; then segments go, newest first, so that what is left is contiguous at
every moment; then the one that holds the border is truncated and synced.
"""

from dataclasses import replace
from typing import NamedTuple

from tierlog.env import Disk
from tierlog.hot.aside import drop_asides
from tierlog.hot.checkpoint import Checkpoint, store_checkpoint
from tierlog.hot.endmark import store_end
from tierlog.hot.epochs import LeaderEpochs
from tierlog.hot.files import FilePool
from tierlog.hot.replay import drop_snapshots
from tierlog.hot.salvage import remove_segment
from tierlog.hot.segment import Segment
from tierlog.hot.segments import SegmentList
from tierlog.hot.store import refused
from tierlog.types import Offset, Position


class Border(NamedTuple):
    """Where a log is cut: the segment that is kept, the first offset and position that are not."""

    kept: Segment
    offset: Offset
    position: Position


def cut_back(
    disk: Disk,
    pool: FilePool,
    directory: str,
    segments: SegmentList,
    border: Border,
    checkpoint: Checkpoint,
) -> None:
    """Cut at `border` a log that `checkpoint` describes. The log must be opened anew afterwards.

    `DiskFull` or `TooManyFiles` leave it as it was; another `OSError` may come half way.
    """
    kept, cut, position = border
    try:
        lowered = _lowered(checkpoint, border)
        store_checkpoint(disk, directory, lowered)
        store_end(disk, directory, lowered.durable_end, sync=True)
    except OSError as fault:
        raise refused(fault) from fault
    drop_snapshots(disk, directory, lambda offset: offset > cut)
    drop_asides(disk, directory, lambda start, _: start >= cut)
    for segment in reversed(list(segments)):
        if segment.base_offset > kept.base_offset:
            pool.forget(segment.path)
            remove_segment(disk, directory, segment.base_offset)
            disk.sync_dir(directory)
    kept.file().truncate(position)
    kept.file().fdatasync()
    for segment in segments:
        pool.unpin(segment.path)


def _lowered(checkpoint: Checkpoint, border: Border) -> Checkpoint:
    epochs = LeaderEpochs(checkpoint.epochs)
    epochs.truncate(border.offset)
    return replace(
        checkpoint,
        epochs=epochs.entries,
        durable_end=min(checkpoint.durable_end, border.offset),
        cleaned_to=min(checkpoint.cleaned_to, border.offset),
        # Not the one that is cut: even if it is kept whole, its end may not be synced yet.
        segments=tuple(
            one for one in checkpoint.segments if one.next_offset <= border.kept.base_offset
        ),
    )
