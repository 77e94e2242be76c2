"""Writing past the page cache, with O_DIRECT.

The kernel wants whole blocks from memory that is aligned to them. A slab is, and goes as it lies;
other bytes go through a buffer of the thread's own, which costs less than the pages that they would
have taken. What is left at the end, less than a block, is written as usual. File systems that
cannot do it get everything as usual.

The flag is the descriptor's: nobody else may write through it meanwhile.
"""

import errno
import fcntl
import mmap
import os
import threading
from typing import Final

from tierlog.types import Bytes

BLOCK_BYTES: Final = 4096
BUFFER_BYTES: Final = 4 << 20
"""Large enough that the disk works on several requests at once."""

_own: Final = threading.local()


def pwrite_direct(fd: int, data: Bytes, position: int) -> int:
    """As `os.pwrite`."""
    view = memoryview(data)
    whole = len(view) - len(view) % BLOCK_BYTES
    done = 0
    if whole and position % BLOCK_BYTES == 0 and _set_direct(fd, is_on=True):
        try:
            done = _write_as_it_lies(fd, view[:whole], position)
            if not done:
                done = _write_blocks(fd, view[:whole], position)
        finally:
            _set_direct(fd, is_on=False)
    # The rest, or all of it where the file system refuses; a full disk refuses this as well.
    return done + os.pwrite(fd, view[done:], position + done)


def _write_as_it_lies(fd: int, view: memoryview, position: int) -> int:
    """0 where the kernel does not take this memory."""
    try:
        return os.pwrite(fd, view, position)
    except OSError as fault:
        if fault.errno == errno.EINVAL:
            return 0
        raise


def _write_blocks(fd: int, view: memoryview, position: int) -> int:
    """How much of it was taken: all, unless the disk is full or takes no direct writes."""
    buffer = _buffer()
    done = 0
    while done < len(view):
        size = min(BUFFER_BYTES, len(view) - done)
        buffer[:size] = view[done : done + size]
        try:
            count = os.pwrite(fd, buffer[:size], position + done)
        except OSError as fault:
            if fault.errno == errno.EINVAL:
                return done
            raise
        done += count
        if count < size:
            return done
    return done


def _buffer() -> memoryview:
    found: memoryview | None = getattr(_own, "buffer", None)
    if found is None:
        found = _own.buffer = memoryview(mmap.mmap(-1, BUFFER_BYTES))  # Pages are aligned.
    return found


def _set_direct(fd: int, *, is_on: bool) -> bool:
    """Whether the file system took the wish."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    wished = flags | os.O_DIRECT if is_on else flags & ~os.O_DIRECT
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, wished)
    except OSError:
        return False
    return True
