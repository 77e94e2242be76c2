"""Small helpers around the disk for the local metastore. Blocking: called in threads."""

from contextlib import suppress
from os.path import dirname

from tierlog.env import Disk, File
from tierlog.types import Bytes

TEMPORARY = ".tmp"


def write_at(file: File, data: Bytes, position: int) -> None:
    """Write everything; a short write is carried on with, so a full disk raises ENOSPC."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += file.pwrite(view[done:], position + done)


def prepare(disk: Disk, path: str, data: Bytes) -> File:
    """Write the file, for its first time or anew. Neither bytes nor name are durable yet."""
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        write_at(file, data, 0)
    except OSError:
        file.close()
        with suppress(OSError):  # Half of it would eat space that somebody waits for.
            disk.unlink(path)
        raise
    return file


def read_file(disk: Disk, path: str) -> bytes | None:
    """None when there is no such file."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
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
