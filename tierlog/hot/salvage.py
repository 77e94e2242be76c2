"""Taking bad bytes out of a log without losing the sound ones beside them.

Each step can be cut off and run again: bytes are copied and fdatasynced before the place they came
from is cut.
"""

from tierlog.env import Disk, File
from tierlog.hot import names, smallfile
from tierlog.types import Offset, Position

PIECE_BYTES = 4 << 20


def copy_range(disk: Disk, source: File, *, start: Position, end: Position, path: str) -> None:
    """Copy bytes into a new file at `path` and fdatasync it."""
    target = disk.open(path, create=True)
    try:
        target.truncate(0)
        position = int(start)
        while position < end:
            piece = memoryview(source.pread(min(PIECE_BYTES, end - position), position))
            written = 0
            while written < len(piece):
                written += target.pwrite(piece[written:], position - start + written)
            position += len(piece)
        target.fdatasync()
    finally:
        target.close()


def rewrite(file: File, *, start: Position, end: Position) -> None:
    """Write bytes where they stand, so that the next fdatasync takes them to the platter.

    After a failed fsync the kernel takes pages for clean that it never wrote: readers see them, a
    later fdatasync succeeds, and a power cut loses them all the same.
    """
    position = int(start)
    while position < end:
        piece = memoryview(file.pread(min(PIECE_BYTES, end - position), position))
        written = 0
        while written < len(piece):
            written += file.pwrite(piece[written:], position + written)
        position += len(piece)


def set_aside(
    disk: Disk, directory: str, source: File, *, start: Position, end: Position, name: str
) -> None:
    """Keep bytes that are about to be cut, under `name` beside the log."""
    path = f"{directory}/{name}"
    copy_range(disk, source, start=start, end=end, path=path + smallfile.TEMPORARY)
    disk.rename(path + smallfile.TEMPORARY, path)
    disk.sync_dir(directory)


def split_off(
    disk: Disk, directory: str, source: File, *, start: Position, end: Position, base: Offset
) -> None:
    """Give the sound batches from `start` on a segment of their own."""
    path = names.segment_path(directory, base, names.LOG)
    copy_range(disk, source, start=start, end=end, path=path + smallfile.TEMPORARY)
    disk.rename(path + smallfile.TEMPORARY, path)
    disk.sync_dir(directory)


def known_damage(disk: Disk, directory: str) -> list[tuple[Offset, Offset]]:
    """Ranges that this or an earlier recovery set aside as damaged."""
    found = (names.parse_aside(name, names.DAMAGED) for name in disk.listdir(directory))
    return [span for span in found if span is not None]


def remove_segment(disk: Disk, directory: str, base: Offset) -> None:
    """Unlink a segment's files, those that are there. The `.log` goes last: it names the rest."""
    for suffix in (names.INDEX, names.TIME_INDEX, names.SNAPSHOT, names.LOG):
        path = names.segment_path(directory, base, suffix)
        if disk.exists(path):
            disk.unlink(path)
