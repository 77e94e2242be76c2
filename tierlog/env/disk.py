"""The disk as a port.

The contract is the kernel's, spelled in Python: calls raise `OSError` with its errno
(`FileNotFoundError`, ENOSPC, EIO ...), reads stop at the end of the file, writes may be short.
What a power cut leaves behind is the kernel's too: a write is durable after `fdatasync` of its
file, a created, renamed or unlinked name after `sync_dir` of its directory, and neither implies the
other. Whoever calls translates errors at its own door.

Nothing here has a cursor: every read and write names its position, so files may be shared between
the loop and the sync threads.
"""

import errno
import fcntl
import os
from contextlib import suppress
from functools import cache
from typing import NamedTuple, Protocol

from tierlog.env.fallocate import fallocate_keep_size
from tierlog.env.mapping import Mapping
from tierlog.env.pastcache import pwrite_direct
from tierlog.types import Bytes, WritableBytes


class File(Protocol):
    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def pread_into(self, buffer: WritableBytes, position: int) -> int:
        """Fill `buffer`; the count is smaller only at the end of the file."""
        ...

    def view(self, size: int, position: int) -> Bytes:
        """The bytes without a copy, for the kernel to send and for nobody to look at.

        They must lie within the file. If it is cut afterwards, sending them fails (EFAULT), and
        touching them kills the process. They outlive the file's name and this handle.
        """
        ...

    def is_cached(self, size: int, position: int) -> bool:
        """Whether sending a view of these bytes would surely not wait for the disk."""
        ...

    def forget(self, size: int, position: int) -> None:
        """These bytes will not be read again soon: the page cache may drop them, if they are clean.

        Advice: nothing changes for readers, and nothing is raised where it cannot be given.
        """
        ...

    def pwrite(self, data: Bytes, position: int) -> int:
        """Write; the count may be short when the disk fills up."""
        ...

    def pwrite_past_cache(self, data: Bytes, position: int) -> int:
        """The same, and the bytes are not left in the page cache where that can be avoided.

        For what will hardly be read again soon: it neither pushes out what is, nor counts as dirty,
        for which the kernel would make every other writer wait.
        """
        ...

    def fdatasync(self) -> None:
        """Return once every byte written so far, and the size needed to read it, is durable."""
        ...

    def fallocate(self, size: int) -> None:
        """Reserve blocks for the first `size` bytes without changing the file's size."""
        ...

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def identity(self) -> str:
        """Tells this file, as it was last written, from every other, whatever their names, also
        from one that takes over its inode later."""
        ...

    def close(self) -> None: ...


class Found(NamedTuple):
    """A name in a directory."""

    name: str
    is_directory: bool


class DiskLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        """Open a file; `create` makes it when it is not there (and implies `write`)."""
        ...

    def mkdir(self, path: str) -> None:
        """Make the directory and its parents; existing ones are fine."""
        ...

    def rmdir(self, path: str) -> None: ...

    def listdir(self, path: str) -> list[str]:
        """Names in the directory, sorted: the same order on every machine."""
        ...

    def scan(self, path: str) -> list[Found]:
        """What `listdir` tells, and which of the names are directories."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target`. Durable after `sync_dir` of the directory."""
        ...

    def rename_new(self, source: str, target: str) -> None:
        """Give a file a name that nothing has, or raise `FileExistsError`: of several who try, in
        whichever processes, one succeeds. A crash may leave both names behind."""
        ...

    def unlink(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def lock(self, path: str) -> DiskLock:
        """Take the lock file for this process, or raise `BlockingIOError` at once."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """Size of the file system that holds `path`."""
        ...

    def boot_id(self) -> str:
        """Names the life of the page cache: it changes when unsynced writes may have been lost."""
        ...


CLOSED_FD = 0x7FFFFFFF
"""Stands for a closed file: no process may hold so many, so the kernel answers EBADF. For -1 some
calls raise ValueError instead, which nobody who minds disk errors would catch."""

CANNOT_MAP = (errno.ENODEV, errno.ENOMEM, errno.EACCES, errno.EPERM)
"""The file system does not do it, or the process has too many: then bytes are copied."""


@cache
def boot_id() -> str:
    """Read once: no process outlives its boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


class LocalFile:
    """A file descriptor."""

    __slots__ = ("_fd", "_mapping")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mapping: Mapping | None = None

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        return data if len(data) == size or not data else self._pread_rest(data, size, position)

    def _pread_rest(self, data: bytes, size: int, position: int) -> bytes:
        # Linux cuts one read at 2 GiB and a signal may cut it earlier: only b"" means the end.
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def pread_into(self, buffer: WritableBytes, position: int) -> int:
        view = memoryview(buffer)
        got = 0
        while got < len(view) and (count := os.preadv(self._fd, [view[got:]], position + got)):
            got += count
        return got

    def view(self, size: int, position: int) -> Bytes:
        end = position + size
        mapping = self._mapping
        if mapping is None or end > len(mapping.data):
            try:
                mapping = self._mapping = Mapping(self._fd, end)
            except OSError as fault:
                if fault.errno not in CANNOT_MAP:
                    raise
                return self.pread(size, position)
        return mapping.data[position:end]

    def is_cached(self, size: int, position: int) -> bool:
        mapping = self._mapping
        return mapping is not None and mapping.is_cached(size, position)

    def forget(self, size: int, position: int) -> None:
        with suppress(OSError):
            os.posix_fadvise(self._fd, position, size, os.POSIX_FADV_DONTNEED)

    def pwrite(self, data: Bytes, position: int) -> int:
        return os.pwrite(self._fd, data, position)

    def pwrite_past_cache(self, data: Bytes, position: int) -> int:
        return pwrite_direct(self._fd, data, position)

    def fdatasync(self) -> None:
        os.fdatasync(self._fd)

    def fallocate(self, size: int) -> None:
        fallocate_keep_size(self._fd, size)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def identity(self) -> str:
        state = os.fstat(self._fd)
        return f"{state.st_ino}-{state.st_mtime_ns}"

    def close(self) -> None:
        self._mapping = None
        fd, self._fd = self._fd, CLOSED_FD
        if fd != CLOSED_FD:
            os.close(fd)


class LocalLock:
    """An advisory lock (flock) that the kernel drops when the process dies."""

    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class LocalDisk:
    """This machine's file system."""

    __slots__ = ()

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File:
        flags = os.O_RDWR if write or create else os.O_RDONLY
        return LocalFile(os.open(path, flags | (os.O_CREAT if create else 0) | os.O_CLOEXEC, 0o644))

    def mkdir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def scan(self, path: str) -> list[Found]:
        with os.scandir(path) as entries:
            return sorted(Found(entry.name, entry.is_dir()) for entry in entries)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def rename_new(self, source: str, target: str) -> None:
        os.link(source, target)
        os.unlink(source)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> DiskLock:
        return LocalLock(path)

    def free_bytes(self, path: str) -> int:
        state = os.statvfs(path)
        return state.f_bavail * state.f_frsize

    def total_bytes(self, path: str) -> int:
        state = os.statvfs(path)
        return state.f_blocks * state.f_frsize

    def boot_id(self) -> str:
        return boot_id()
