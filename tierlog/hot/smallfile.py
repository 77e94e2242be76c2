"""Small files that are replaced whole or not at all.

Written beside their name, fdatasynced, renamed over it, and the directory synced: after a power cut
the old or the new content is there, never a mixture. `.tmp` leftovers mean nothing and are removed
when a log opens.
"""

from contextlib import suppress
from os.path import dirname

from tierlog.env import Disk
from tierlog.hot import names
from tierlog.types import Bytes


def write_all(disk: Disk, path: str, data: Bytes) -> None:
    """Create or overwrite `path` and fdatasync it. The name is not durable yet."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        position = 0
        view = memoryview(data)
        while position < len(view):
            position += file.pwrite(view[position:], position)
        file.fdatasync()
    finally:
        file.close()


def replace(disk: Disk, directory: str, name: str, data: Bytes) -> None:
    """Durably replace the file `name` in `directory`."""
    path = f"{directory}/{name}"
    write_all(disk, path + names.TEMPORARY, data)
    disk.rename(path + names.TEMPORARY, path)
    disk.sync_dir(directory)


def read_all(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def make_directory(disk: Disk, path: str) -> None:
    """Make the directory and its parents, each name durable: a file in a lost folder is lost.

    One that exists is synced too: whoever made it may have been killed before he synced its name.
    """
    parent = dirname(path) or "."
    if not disk.exists(path):
        make_directory(disk, parent)
        disk.mkdir(path)
        disk.sync_dir(parent)
        return
    with suppress(PermissionError):  # Not ours to read, so not ours: somebody else made it.
        disk.sync_dir(parent)


def remove_directory(disk: Disk, path: str) -> None:
    """Unlink the files of a directory, then itself. Not synced; gone already is fine."""
    with suppress(FileNotFoundError):
        for name in disk.listdir(path):
            disk.unlink(f"{path}/{name}")
        disk.rmdir(path)
