"""Files beside the log that keep what recovery took out of it (`.torn`, `.damaged`).

They name a range of offsets and go when the log no longer has that range: trimmed away below the
log start offset, or cut off by a truncation.
"""

from collections.abc import Callable

from tierlog.env import Disk
from tierlog.hot import names
from tierlog.types import Offset


def aside_range(name: str) -> tuple[Offset, Offset] | None:
    """The range in a file's name, or None when the name is of another kind."""
    return names.parse_aside(name, names.TORN) or names.parse_aside(name, names.DAMAGED)


def drop_asides(disk: Disk, directory: str, unwanted: Callable[[Offset, Offset], bool]) -> None:
    for name in disk.listdir(directory):
        span = aside_range(name)
        if span is not None and unwanted(*span):
            disk.unlink(f"{directory}/{name}")
