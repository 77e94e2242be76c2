"""A log directory: one disk that many partitions share.

Holds the lock (a second process is refused), the open logs and files, the reserve of free space and
the sync scheduler with its broken latch. A partition's directory is `{topic uuid}-{partition}`
below it.
"""

from collections.abc import Callable
from os.path import normpath
from typing import Protocol

from tierlog.env import Disk, Env
from tierlog.hot.errors import AlreadyOpen, DirectoryInUse, DiskFull, LogBroken
from tierlog.hot.files import FilePool
from tierlog.hot.smallfile import make_directory
from tierlog.hot.sync import Syncable, Syncs, SyncScheduler

LOCK = ".lock"
RESERVE_BYTES = 64 << 20
"""Kept free for checkpoints, indexes and snapshots, so that a full disk can still be closed."""

FILES_MAX = 1024


class Failing(Syncable, Protocol):
    """A log, as the directory sees it."""

    path: str

    def fail(self, broken: LogBroken) -> None: ...


class LogDirectory:
    def __init__(
        self,
        env: Env,
        path: str,
        *,
        syncs: Syncs | None = None,
        reserve_bytes: int = RESERVE_BYTES,
        files_max: int = FILES_MAX,
        on_broken: Callable[[LogBroken], None] = lambda _: None,
    ) -> None:
        self.env = env
        self.path = path
        self._reserve_bytes = reserve_bytes
        make_directory(env.disk, path)
        try:
            self._lock = env.disk.lock(f"{path}/{LOCK}")
        except BlockingIOError as held:
            raise DirectoryInUse(
                f"{path} is in use by another process; stop it, or name another directory"
            ) from held
        self.pool = FilePool(env.disk, open_max=files_max)
        self._logs: dict[str, Failing] = {}
        self._on_broken = on_broken
        self.syncs: Syncs = syncs or SyncScheduler(env.tasks, env.clock)
        self.syncs.on_broken = self._fail

    @property
    def disk(self) -> Disk:
        return self.env.disk

    @property
    def broken(self) -> LogBroken | None:
        return self.syncs.broken

    def claim(self, size: int) -> None:
        """Raise `DiskFull` when `size` more bytes would eat into the reserve."""
        free = self.disk.free_bytes(self.path)
        if free - size < self._reserve_bytes:
            raise DiskFull(
                f"{self.path} has {free} bytes free; {self._reserve_bytes} are kept in reserve: "
                "free some space, shorten local retention or see why uploads lag"
            )

    def attach(self, log: Failing) -> None:
        """Take the log in, before it touches a file: one log a partition."""
        if normpath(log.path) in self._logs:
            raise AlreadyOpen(f"{log.path} is open already; close it before it is opened again")
        self._logs[normpath(log.path)] = log

    def detach(self, log: Failing) -> None:
        if self._logs.get(normpath(log.path)) is log:
            del self._logs[normpath(log.path)]
        self.syncs.forget(log)

    def _fail(self, broken: LogBroken) -> None:
        for log in list(self._logs.values()):
            log.fail(broken)
        self._on_broken(broken)

    def close(self) -> None:
        """Close the files and give up the lock. The logs are closed by their owner before."""
        self.pool.close()
        self._lock.release()
