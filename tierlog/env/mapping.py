"""Read-only mappings of files that are still growing, which Python's `mmap` refuses to make.

A mapping is longer than its file: pages behind the end become readable as the file grows. Until
then, and when somebody cuts the file, touching them kills the process (SIGBUS), while a system call
that is handed them fails with EFAULT. So slices of a mapping are for the kernel to send, not for
Python to look at.

It goes when nobody holds a slice of it any more, whatever became of the file meanwhile.
"""

import ctypes
import ctypes.util
import mmap
import os
import weakref
from collections.abc import Iterable
from time import monotonic

from tierlog.types import Bytes

LENGTH_MIN = 128 << 20
"""Address space is free; a segment of the usual size is mapped once, however it grows."""

BLOCK_BITS = 20
"""Of a mebibyte: what the kernel is asked about at once."""
REMEMBERED_S = 1.0
"""How long its answer counts: long enough to serve some megabytes, short beside the time that a
used page stays in the cache."""
_NEVER = (0, -1.0)

_libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
_mmap = _libc.mmap
_mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_mmap.restype = ctypes.c_void_p
_munmap = _libc.munmap
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
# It only looks: too short a call to let go of the interpreter for.
_mincore = ctypes.PyDLL(ctypes.util.find_library("c")).mincore
_mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_PAGE_BYTES = mmap.PAGESIZE
MAP_FAILED = ctypes.c_void_p(-1).value


def mapped_bytes(parts: Iterable[Bytes]) -> int:
    """How many bytes of the parts are slices of mappings: pages of files, which hold no memory."""
    return sum(
        len(part)
        for part in parts
        # Of bytes: slabs, which are memory, are arrays of characters.
        if type(part) is memoryview
        and isinstance(part.obj, ctypes.Array)
        and part.obj._type_ is ctypes.c_ubyte
    )


class Mapping:
    """The first bytes of a file, at least `size` of them."""

    __slots__ = ("_address", "_cached", "_flags", "data")

    def __init__(self, fd: int, size: int) -> None:
        length = max(LENGTH_MIN, 1 << (size - 1).bit_length())
        address = _mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if address is None or address == MAP_FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._address = address
        self._flags = ctypes.create_string_buffer((1 << BLOCK_BITS) // _PAGE_BYTES)
        self._cached: dict[int, tuple[int, float]] = {}
        owner = (ctypes.c_ubyte * length).from_address(address)
        # Slices keep the owner alive. Not at exit: threads may still be sending from it.
        weakref.finalize(owner, _munmap, address, length).atexit = False
        self.data = memoryview(owner).cast("B").toreadonly()

    def is_cached(self, size: int, position: int) -> bool:
        """Whether all these bytes are in the page cache, so that touching them reads no disk.

        The kernel is asked for a block at once, and not again for a while: under memory pressure a
        page may be gone by then, which costs one wait for the disk.
        """
        now = monotonic()
        end = position + size
        block = position >> BLOCK_BITS
        while True:
            cached_to, until = self._cached.get(block, _NEVER)
            if until < now or cached_to < min(end, (block + 1) << BLOCK_BITS):
                cached_to = self._ask(block)
                self._cached[block] = (cached_to, now + REMEMBERED_S)
            if end <= cached_to:
                return True
            block += 1
            if cached_to < block << BLOCK_BITS:
                return False

    def _ask(self, block: int) -> int:
        """Up to where the block is cached without a gap."""
        start = block << BLOCK_BITS
        # The kernel fills in a flag for each page.
        if _mincore(self._address + start, 1 << BLOCK_BITS, self._flags) != 0:
            return start
        missing = self._flags.raw.find(0)
        return start + (1 << BLOCK_BITS if missing < 0 else missing * _PAGE_BYTES)
