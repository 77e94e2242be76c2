"""Open files of a log directory, bounded in number.

Partitions and their segments are many and most are idle: files are opened on demand, and beyond
the limit the least recently used one is closed. A file with unsynced writes is pinned, because the
kernel reports a write-back error only to descriptors that were open when it happened. So the limit
is exceeded only while more files than that wait for a sync; logs that sync seldom then sync sooner
(`is_crowded`).

When the process may not open another file (EMFILE, ENFILE), the pool closes what it can and tries
again; then it is `TooManyFiles`, which breaks nothing.
"""

import errno
from collections import OrderedDict

from tierlog.env import Disk, File
from tierlog.hot.errors import LogClosed, TooManyFiles

NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)


class FilePool:
    def __init__(self, disk: Disk, *, open_max: int) -> None:
        self._disk = disk
        self._open_max = open_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._pinned: dict[str, File] = {}
        self._is_closed = False
        self.is_crowded = False
        """Whether files with unsynced writes take all the places. Asked with every append."""

    def __len__(self) -> int:
        return len(self._open) + len(self._pinned)

    def get(self, path: str) -> File:
        """The file, for use before the next call to the pool."""
        file = self._pinned.get(path) or self._open.get(path)
        if file is None:
            file = self._open[path] = self._opened(path, create=False)
            self._shrink()
        elif path in self._open:
            self._open.move_to_end(path)
        return file

    def pin(self, path: str, *, create: bool = False) -> File:
        """The file, open until it is unpinned."""
        file = self._pinned.get(path) or self._open.pop(path, None)
        if file is None:
            file = self._opened(path, create=create)
        self._pinned[path] = file
        self._shrink()
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
        self._shrink()

    def close_idle(self) -> bool:
        """Close what is not pinned, for others who need files. False if there was nothing."""
        had_any = bool(self._open)
        self._close_oldest(keep=0)
        return had_any

    def close(self) -> None:
        """Close every file; none is opened again (`LogClosed`)."""
        self._is_closed = True
        for file in [*self._pinned.values(), *self._open.values()]:
            file.close()
        self._pinned.clear()
        self._open.clear()

    def _opened(self, path: str, *, create: bool) -> File:
        if self._is_closed:
            raise LogClosed(f"{path} is not opened any more: its log directory is closed")
        try:
            return self._disk.open(path, write=True, create=create)
        except OSError as fault:
            if fault.errno not in NO_MORE_FILES:
                raise
        self._close_oldest(keep=0)
        try:
            return self._disk.open(path, write=True, create=create)
        except OSError as fault:
            raise refused_file(fault) from fault

    def _shrink(self) -> None:
        self.is_crowded = len(self._pinned) >= self._open_max
        # One may always stay: whoever asked for it last still uses it.
        self._close_oldest(keep=max(self._open_max - len(self._pinned), 1))

    def _close_oldest(self, *, keep: int) -> None:
        while len(self._open) > keep:
            self._open.popitem(last=False)[1].close()


def refused_file(fault: OSError) -> Exception:
    """What running out of files is called in this room; other faults stay what they are."""
    if fault.errno in NO_MORE_FILES:
        return TooManyFiles(
            f"the process may not open another file ({fault}): raise its limit (ulimit -n) or "
            "lower the number of files that the log directory may keep open"
        )
    return fault
