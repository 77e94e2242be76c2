"""Opening a partition: everything that blocks, in one call that may run in a thread.

It shares nothing with the logs that are open: it has a file pool of its own, and what it returns
is handed over to the log directory's pool by the log that takes it. Several may run side by side.
"""

from contextlib import closing
from dataclasses import dataclass

from tierlog.env import Disk
from tierlog.hot.files import FilePool
from tierlog.hot.recovery import Recovered, Recovery
from tierlog.hot.salvage import known_damage
from tierlog.hot.seed import Seed
from tierlog.hot.settings import LogSettings
from tierlog.types import Offset

FILES_MAX = 4
"""A recovery looks at one segment at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A partition as it was found, durable."""

    recovered: Recovered
    damage: list[tuple[Offset, Offset]]
    """Ranges that this or an earlier recovery set aside."""


def open_partition(
    disk: Disk,
    path: str,
    settings: LogSettings,
    *,
    start: Offset,
    now_ms: int,
    seed: Seed | None = None,
) -> Opened:
    """Recover what is in the directory `path`, or begin a log at `start` with `seed`. Blocks."""
    with closing(FilePool(disk, open_max=FILES_MAX)) as pool:
        recovered = Recovery(
            disk=disk,
            directory=path,
            pool=pool,
            settings=settings,
            start=start,
            now_ms=now_ms,
            seed=seed,
        ).run()
        # Those that the first append needs: better now than on the loop.
        recovered.segments[-1].indexes()
    return Opened(recovered=recovered, damage=known_damage(disk, path))
