"""An open file of the simulated disk."""

import errno
from typing import TYPE_CHECKING

from tierlog.sim.nodes import Change, FileNode
from tierlog.sim.tree import disk_error
from tierlog.types import Bytes, WritableBytes

if TYPE_CHECKING:
    from tierlog.sim.disk import SimDisk


class SimFile:
    """Implements `tierlog.env.File`. Stale once its process or machine died."""

    __slots__ = ("_disk", "_life", "_node", "_open", "_path", "_writable")

    def __init__(self, disk: "SimDisk", node: FileNode, path: str, *, writable: bool) -> None:
        self._disk = disk
        self._node = node
        self._path = path
        self._writable = writable
        self._life = disk.life
        self._open = True
        node.open_count += 1

    def pread(self, size: int, position: int) -> bytes:
        self._check_read(size, position)
        return bytes(self._node.cache[position : position + size])

    def pread_into(self, buffer: WritableBytes, position: int) -> int:
        view = memoryview(buffer).cast("B")
        self._check_read(len(view), position)
        data = self._node.cache[position : position + len(view)]
        view[: len(data)] = data
        return len(data)

    def view(self, size: int, position: int) -> Bytes:
        return self.pread(size, position)

    def is_cached(self, size: int, position: int) -> bool:
        self._check_open()
        return True

    def forget(self, size: int, position: int) -> None:
        """Nothing to do: the cache of the simulated disk has room for everything."""

    def pwrite(self, data: Bytes, position: int) -> int:
        self._check_write()
        # memoryviews may have wide items; the kernel counts bytes.
        content = bytes(data)
        if not content:
            return 0
        self._disk.begin("pwrite", f"{self._path} {position}+{len(content)}")
        fits = self._disk.charge(self._node, position + len(content)) - position
        if fits <= 0:
            raise disk_error(errno.ENOSPC, self._path)
        if fits < len(content):
            content = content[:fits]
        self._node.change(Change(position, content))
        return len(content)

    def pwrite_past_cache(self, data: Bytes, position: int) -> int:
        return self.pwrite(data, position)

    def fdatasync(self) -> None:
        self._check_open()
        self._disk.begin("fdatasync", self._path)
        if self._disk.takes_fsync_failure(self._node, self._path):
            raise disk_error(errno.EIO, self._path)
        self._node.sync()

    def fallocate(self, size: int) -> None:
        self._check_write()
        self._disk.begin("fallocate", f"{self._path} {size}")
        if self._disk.charge(self._node, size) < size:
            self._disk.refund(self._node, max(len(self._node.cache), self._node.reserved))
            raise disk_error(errno.ENOSPC, self._path)
        self._node.reserved = max(self._node.reserved, size)

    def truncate(self, size: int) -> None:
        self._check_write()
        if size < 0:
            raise disk_error(errno.EINVAL, self._path)
        self._disk.begin("truncate", f"{self._path} {size}")
        self._node.change(Change(size, None))
        # Cutting a file also gives back what was reserved beyond its end.
        self._node.reserved = min(self._node.reserved, size)
        self._disk.refund(self._node, size)

    def size(self) -> int:
        self._check_open()
        return len(self._node.cache)

    def identity(self) -> str:
        self._check_open()
        return str(self._node.inode)

    def close(self) -> None:
        if self._open and self._life == self._disk.life:
            self._node.open_count -= 1
            self._disk.closed(self._node)
        self._open = False

    def _check_open(self) -> None:
        self._disk.alive()
        if not self._open:
            raise disk_error(errno.EBADF, self._path)
        if self._life != self._disk.life:
            raise disk_error(errno.ESTALE, self._path)

    def _check_write(self) -> None:
        self._check_open()
        if not self._writable:
            raise disk_error(errno.EBADF, self._path)

    def _check_read(self, size: int, position: int) -> None:
        self._check_open()
        if position < 0:
            raise disk_error(errno.EINVAL, self._path)
        if self._node.bad_ranges and self._disk.is_bad(self._node, position, position + size):
            raise disk_error(errno.EIO, self._path)
