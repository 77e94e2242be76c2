"""A log directory: one disk that many partitions share.

Holds the lock (a second process is refused), the open logs and files, the reserve of free space and
the sync scheduler with its broken latch. A partition's directory is `{topic uuid}-{partition}`
below it; one that was deleted has a name that ends in `.deleted` until its files are unlinked.

Names below it are durable: those found when it opens are synced then, later ones before whoever
made or removed them is told, one sync for all that come at the same time.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os.path import normpath
from typing import Protocol

from tierlog.env import Disk, Env
from tierlog.hot import names
from tierlog.hot.errors import AlreadyOpen, DirectoryInUse, DiskFull, LogBroken, TooManyFiles
from tierlog.hot.files import FilePool
from tierlog.hot.log import FIRST_OFFSET, Log
from tierlog.hot.opening import Opened, open_partition
from tierlog.hot.seed import Seed
from tierlog.hot.settings import LogSettings
from tierlog.hot.shared import SharedCall, to_its_end
from tierlog.hot.smallfile import make_directory, remove_directory
from tierlog.hot.store import refused
from tierlog.hot.sync import Syncable, Syncs, SyncScheduler
from tierlog.types import Offset

logger = logging.getLogger(__name__)

LOCK = ".lock"
RESERVE_BYTES = 64 << 20
"""Kept free for checkpoints, indexes and snapshots, so that a full disk can still be closed."""

ROOM_BYTES = 16 << 20
"""More than the reserve by this much, and a full disk counts as over."""

FILES_MAX = 1024
OPENINGS_MAX = 4
"""Logs that open side by side: the threads are shared with the sync jobs of those that are open."""


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
        self.reserve_bytes = reserve_bytes
        """Free bytes that appends leave, whatever else is asked of the disk."""
        self._refused_bytes = 0
        """Of the append that the reserve did not allow, if that was the last one."""
        self._is_full_told = False
        make_directory(env.disk, path)
        try:
            self._lock = env.disk.lock(f"{path}/{LOCK}")
        except BlockingIOError as held:
            raise DirectoryInUse(
                f"{path} is in use by another process; stop it, or name another directory"
            ) from held
        # Whoever made the names below may have been killed before he synced them.
        env.disk.sync_dir(path)
        self._leftovers = [
            f"{path}/{name}" for name in env.disk.listdir(path) if names.is_deleted(name)
        ]
        self.pool = FilePool(env.disk, open_max=files_max)
        self._logs: dict[str, Failing] = {}
        self._busy: set[str] = set()
        """Partitions that are being opened or deleted."""
        self._unsynced: set[str] = set()
        """Partitions whose names were made and are not durable yet, for all we know."""
        self._names = SharedCall(env.tasks, self._sync_names)
        self._openings = asyncio.Semaphore(OPENINGS_MAX)
        self._sweeps: set[asyncio.Task[None]] = set()
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
        if free - size >= self.reserve_bytes:
            self._refused_bytes = 0
            # A small append may fit where a large one did not: that is not yet room.
            self._is_full_told &= free < self.reserve_bytes + ROOM_BYTES
            return
        self._refused_bytes = size
        full = self._full(free)
        if not self._is_full_told:
            logger.error("%s. Until then nothing is appended", full)
            self._is_full_told = True
        raise full

    def check_room(self, size: int) -> None:
        """The same for work that can wait. That it has to says nothing of appends, which need far
        less: it is not told as a full disk, nor as the end of one."""
        free = self.disk.free_bytes(self.path)
        if free - size < self.reserve_bytes:
            raise self._full(free)

    def _full(self, free: int) -> DiskFull:
        return DiskFull(
            f"{self.path} has {free} bytes free; {self.reserve_bytes} are kept in reserve: "
            "free some space, shorten local retention or see why uploads lag"
        )

    @property
    def is_full(self) -> bool:
        """Whether the last append was refused, and would be again."""
        size = self._refused_bytes
        return size > 0 and self.disk.free_bytes(self.path) - size < self.reserve_bytes

    def names(self) -> list[str]:
        """The partitions that have a directory here, open or not. Blocks for a listing."""
        return [name for name in self.disk.listdir(self.path) if names.is_partition(name)]

    # Opening

    async def open_log(
        self,
        name: str,
        settings: LogSettings,
        *,
        start: Offset = FIRST_OFFSET,
        seed: Seed | None = None,
    ) -> Log:
        """Open the log `name`, or begin one at offset `start`, in a thread. Several at once do.

        One that begins remembers what `seed` says of its past; one that is there ignores both.
        When it returns, the log is durable. Cut off half way by a crash or an error, it can simply
        be opened again.
        """
        assert names.is_partition(name), name
        path = f"{self.path}/{name}"
        self._sweep_leftovers()
        if self.broken is not None:
            raise self.broken
        self._refuse_second(path)
        with self._reserved(path):
            try:
                opened = await self._open_in_thread(path, settings, start, seed)
            except TooManyFiles:
                if not self.pool.close_idle():
                    raise
                opened = await self._open_in_thread(path, settings, start, seed)
            await self._make_name_durable(path)
        return Log(self, name, settings, opened=opened)

    async def _open_in_thread(
        self, path: str, settings: LogSettings, start: Offset, seed: Seed | None
    ) -> Opened:
        now_ms = self.env.clock.now_ms()
        async with self._openings:
            return await to_its_end(
                self.env.tasks.in_thread(self._open, path, settings, start, now_ms, seed)
            )

    def _open(
        self,
        path: str,
        settings: LogSettings,
        start: Offset,
        now_ms: int,
        seed: Seed | None = None,
    ) -> Opened:
        """Blocks, and may run in several threads at once, for different paths."""
        try:
            if not self.disk.exists(path):
                self._unsynced.add(path)
                self.disk.mkdir(path)
            return open_partition(self.disk, path, settings, start=start, now_ms=now_ms, seed=seed)
        except OSError as fault:
            raise refused(fault) from fault

    async def _make_name_durable(self, path: str) -> None:
        if path not in self._unsynced:
            return
        try:
            await self._names.request()
        except OSError as fault:
            raise self._write_fault(fault) from fault
        self._unsynced.discard(path)

    def _sync_names(self) -> None:
        self.disk.sync_dir(self.path)

    def open_now(self, path: str, settings: LogSettings, *, start: Offset) -> Opened:
        """The same, blocking, for the constructor of a log that is attached already."""
        now_ms = self.env.clock.now_ms()
        try:
            opened = self._open(path, settings, start, now_ms)
        except TooManyFiles:
            if not self.pool.close_idle():
                raise
            opened = self._open(path, settings, start, now_ms)
        if path in self._unsynced:
            self._sync_names()
            self._unsynced.discard(path)
        return opened

    def attach(self, log: Failing) -> None:
        """Take the log in, before it touches a file: one log a partition."""
        self._refuse_second(log.path)
        self._logs[normpath(log.path)] = log

    def _refuse_second(self, path: str) -> None:
        if normpath(path) in self._logs:
            raise AlreadyOpen(f"{path} is open already; close it before it is opened again")
        self._refuse_busy(path)

    def _refuse_busy(self, path: str) -> None:
        if normpath(path) in self._busy:
            raise AlreadyOpen(f"{path} is being opened or deleted; wait until that is done")

    def detach(self, log: Failing) -> None:
        if self._logs.get(normpath(log.path)) is log:
            del self._logs[normpath(log.path)]
        self.syncs.forget(log)

    @contextmanager
    def _reserved(self, path: str) -> Iterator[None]:
        """Nobody else opens or deletes the partition meanwhile."""
        self._refuse_busy(path)
        self._busy.add(normpath(path))
        try:
            yield
        finally:
            self._busy.discard(normpath(path))

    # Deleting

    async def delete_log(self, log: Log) -> None:
        """Remove the log and its files. Durable when it returns; the space comes back later.

        The log refuses everything from now on; its sync job under way is waited for. Bytes that
        readers were given stay valid. After `DiskFull` or `TooManyFiles`, or when it was cancelled,
        ask again.
        """
        self._sweep_leftovers()
        with self._reserved(log.path):
            await log.abandon()
            if self.broken is not None:
                raise self.broken
            if not log.is_deleted:
                await self._rename_to_grave(log.path)
                log.is_deleted = True
            await self._make_graves_durable()
        self._sweep_leftovers()

    async def delete_closed(self, name: str) -> None:
        """The same for a log that is not open: nothing is read. Gone already is fine."""
        assert names.is_partition(name), name
        path = f"{self.path}/{name}"
        self._refuse_second(path)
        if self.broken is not None:
            raise self.broken
        with self._reserved(path):
            await self._rename_to_grave(path)
            await self._make_graves_durable()
        self._sweep_leftovers()

    async def put_aside(self, name: str) -> str | None:
        """Take a partition that is not open out of the way without losing a byte of it.

        For a copy that disagrees with another one that counts. Returns where it is kept from now
        on, durably, under a name that nobody opens; None if it is not there.
        """
        assert names.is_partition(name), name
        path = f"{self.path}/{name}"
        self._refuse_second(path)
        if self.broken is not None:
            raise self.broken
        kept = names.kept_name(path, self.env.rng.randbytes(8))
        with self._reserved(path):
            try:
                await to_its_end(self.env.tasks.in_thread(self.disk.rename, path, kept))
            except FileNotFoundError:
                return None
            except OSError as fault:
                raise self._write_fault(fault) from fault
            await self._make_graves_durable()
        return kept

    async def _rename_to_grave(self, path: str) -> None:
        grave = names.deleted_name(path, self.env.rng.randbytes(8))
        try:
            await to_its_end(self.env.tasks.in_thread(self.disk.rename, path, grave))
        except FileNotFoundError:
            return
        except OSError as fault:
            raise self._write_fault(fault) from fault
        self._leftovers.append(grave)

    async def _make_graves_durable(self) -> None:
        try:
            await self._names.request()
        except OSError as fault:
            raise self._write_fault(fault) from fault

    def _sweep_leftovers(self) -> None:
        """Unlink in the background what was deleted, in this life or an earlier one."""
        paths, self._leftovers = self._leftovers, []
        if paths:
            task = self.env.tasks.spawn(self._unlink_all(paths), name="sweep")
            self._sweeps.add(task)
            task.add_done_callback(self._sweeps.discard)

    async def _unlink_all(self, paths: list[str]) -> None:
        for path in paths:
            try:
                await self.env.tasks.in_thread(remove_directory, self.disk, path)
            except OSError as fault:
                logger.warning("%s is deleted but cannot be unlinked: %s", path, fault)

    async def swept(self) -> None:
        """Done once the files of everything deleted so far are unlinked, where they can be."""
        self._sweep_leftovers()
        if self._sweeps:
            await asyncio.wait(self._sweeps)

    # Ending

    def _write_fault(self, fault: OSError) -> Exception:
        known = refused(fault)
        return self.syncs.latch(fault) if known is fault else known

    def _fail(self, broken: LogBroken) -> None:
        for log in list(self._logs.values()):
            log.fail(broken)
        self._on_broken(broken)

    def close(self) -> None:
        """Close the files and give up the lock. The logs are closed by their owner before.

        What is deleted and not unlinked yet is left to the next process.
        """
        for task in self._sweeps:
            task.cancel()
        self.pool.close()
        self._lock.release()
