"""Putting a cleaned segment in the place of those that it was made of, whatever happens meanwhile.

A cleaning writes `{base}.log.cleaned` and its indexes and fdatasyncs them; then they are called
`.swap`, durably. So far nothing has happened: recovery removes both kinds. The checkpoint that
lists the new segment, and as `replaced` those that it was made of, is the one moment at which the
swap comes about. After it, in this order, each step durable before the next: the indexes take
their names, the `.log` takes its own (which is that of the first segment replaced), the other
segments' files go. Recovery does the same again for what `replaced` names.

Whoever makes a `.swap` takes care that the checkpoint on the disk names nothing as replaced: else
a restart would take it for one that was listed.
"""

from collections.abc import Sequence

from tierlog.env import Disk
from tierlog.hot import names
from tierlog.hot.salvage import remove_segment
from tierlog.types import Offset

INDEXES = (names.INDEX, names.TIME_INDEX)
ALL = (*INDEXES, names.LOG)


def make_ready(disk: Disk, directory: str, base: Offset) -> None:
    """What a cleaning wrote is whole and fdatasynced: from now on it may be listed."""
    for kind in ALL:
        path = names.segment_path(directory, base, kind)
        disk.rename(path + names.CLEANED, path + names.SWAP)
    disk.sync_dir(directory)


def finish_swap(disk: Disk, directory: str, replaced: Sequence[Offset]) -> None:
    """The checkpoint lists the new segment. May be done again, from wherever it was cut off."""
    base, *others = replaced
    path = names.segment_path(directory, base, names.LOG)
    if disk.exists(path + names.SWAP):
        for kind in INDEXES:
            index = names.segment_path(directory, base, kind)
            if disk.exists(index + names.SWAP):
                disk.rename(index + names.SWAP, index)
        disk.sync_dir(directory)
        disk.rename(path + names.SWAP, path)
        disk.sync_dir(directory)
    for other in others:
        remove_segment(disk, directory, other)
    if others:
        disk.sync_dir(directory)


def settle_swaps(disk: Disk, directory: str, replaced: Sequence[Offset]) -> None:
    """At open: finish what the checkpoint lists, undo the rest."""
    if replaced:
        finish_swap(disk, directory, replaced)
    for name in disk.listdir(directory):
        if names.is_unswapped(name):
            disk.unlink(f"{directory}/{name}")


def discard(disk: Disk, directory: str, base: Offset) -> None:
    """A cleaning came to nothing: remove what it wrote, as far as it came."""
    for kind in ALL:
        path = names.segment_path(directory, base, kind)
        for leftover in (path + names.CLEANED, path + names.SWAP):
            if disk.exists(leftover):
                disk.unlink(leftover)
