"""Files that are being written and have no key yet.

Each process has a directory of its own, `.tierlog/tmp/<uuid>`, and holds the lock in it while it
lives. Whoever begins to write sweeps the directories of those that do not.
"""

from contextlib import suppress
from typing import NamedTuple

from tierlog.env import Disk, DiskLock, Env, File
from tierlog.objectstore.body import check_arrived
from tierlog.objectstore.folder.doors import preparing
from tierlog.objectstore.folder.room import FloorOf, Room, no_floor
from tierlog.objectstore.folder.sums import Sum, Summer
from tierlog.objectstore.port import Body
from tierlog.types import Bytes

LOCK = "lock"
TRIES_MAX = 5


class Draft(NamedTuple):
    """A file whose bytes are whole, checked and durable, and whose name is not a key."""

    path: str
    sum: Sum


class Drafts:
    def __init__(self, env: Env, path: str, *, floor_of: FloorOf = no_floor) -> None:
        self._env = env
        self._disk: Disk = env.disk
        self._path = path
        self._room = Room(env.disk, path, floor_of=floor_of)
        self._own = ""
        self._lock: DiskLock | None = None

    @property
    def has_begun(self) -> bool:
        return self._lock is not None

    def begin(self) -> None:
        """Once, before the first path. Not by two threads at a time."""
        self._disk.mkdir(self._path)
        self._sweep()
        for left in reversed(range(TRIES_MAX)):
            self._own = f"{self._path}/{self._env.rng.uuid().hex}"
            self._disk.mkdir(self._own)
            try:
                self._lock = self._disk.lock(f"{self._own}/{LOCK}")
            except (BlockingIOError, FileNotFoundError):
                # Somebody swept it before it was locked: take another.
                if not left:
                    raise
            else:
                return

    def new_path(self) -> str:
        assert self._lock is not None, "begin comes first"
        return f"{self._own}/{self._env.rng.uuid().hex}"

    def write(self, key: str, body: Body, *, sync: bool = True) -> Draft:
        """Raises `StoreBadRequest` if the bytes are not those that the body promises, `StoreFull`
        if they would leave too little room. What goes wrong with the body's own source is not
        translated: it is no fault of this folder."""
        path = self.new_path()
        try:
            with self._room.taken(key, body.size):
                return Draft(path, self._write(path, key, body, sync=sync))
        except BaseException:
            self.drop(path)
            raise

    def drop(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._disk.unlink(path)

    def close(self) -> None:
        """Does not fail: a write whose caller went away may still be under way in a thread; what it
        leaves is swept by the next start."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(OSError):
                self._empty(self._own)
            lock.release()

    def _write(self, path: str, key: str, body: Body, *, sync: bool) -> Sum:
        with preparing(key):
            file = self._disk.open(path, create=True)
        try:
            summer = Summer()
            for piece in body.pieces():
                with preparing(key):
                    write_all(file, piece, summer.size)
                summer.add(piece)
            check_arrived(size=summer.size, crc=summer.crc32c, body=body)
            with preparing(key):
                if sync:
                    file.fdatasync()
                return summer.total(file, modified_ms=self._env.clock.now_ms())
        finally:
            file.close()

    def _sweep(self) -> None:
        for name in self._disk.listdir(self._path):
            path = f"{self._path}/{name}"
            with suppress(OSError):  # It lives, or somebody else sweeps it.
                lock = self._disk.lock(f"{path}/{LOCK}")
                try:
                    self._empty(path)
                finally:
                    lock.release()

    def _empty(self, path: str) -> None:
        with suppress(FileNotFoundError):
            for name in self._disk.listdir(path):
                self.drop(f"{path}/{name}")
            self._disk.rmdir(path)


def write_all(file: File, piece: Bytes, position: int) -> None:
    """A full disk writes short first and then says so."""
    view = memoryview(piece).cast("B")
    while view:
        count = file.pwrite(view, position)
        view = view[count:]
        position += count
