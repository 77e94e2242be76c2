"""Open files of a log directory, bounded in number.

Sealed segments are many and read seldom: their files are opened on demand and the least recently
used one is closed beyond the limit. A file with unsynced writes is pinned, because the kernel
reports a write-back error only to descriptors that were open when it happened.
"""

from collections import OrderedDict

from tierlog.env import Disk, File


class FilePool:
    def __init__(self, disk: Disk, *, open_max: int) -> None:
        self._disk = disk
        self._open_max = open_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._pinned: dict[str, File] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._pinned)

    def get(self, path: str) -> File:
        """The file, for use before the next call to the pool."""
        file = self._pinned.get(path) or self._open.get(path)
        if file is None:
            file = self._open[path] = self._disk.open(path, write=True)
            self._shrink()
        elif path in self._open:
            self._open.move_to_end(path)
        return file

    def pin(self, path: str, *, create: bool = False) -> File:
        """The file, open until it is unpinned."""
        file = self._pinned.get(path) or self._open.pop(path, None)
        if file is None:
            file = self._disk.open(path, write=True, create=create)
        self._pinned[path] = file
        return file

    def unpin(self, path: str) -> None:
        file = self._pinned.pop(path, None)
        if file is not None:
            self._open[path] = file
            self._shrink()

    def forget(self, path: str) -> None:
        """Close the file, if it is open: it is about to be removed or replaced."""
        file = self._pinned.pop(path, None) or self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        for file in [*self._pinned.values(), *self._open.values()]:
            file.close()
        self._pinned.clear()
        self._open.clear()

    def _shrink(self) -> None:
        while len(self._open) > self._open_max:
            self._open.popitem(last=False)[1].close()
