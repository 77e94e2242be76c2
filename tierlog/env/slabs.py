"""Memory of one size that is used again and again, for bytes that pass through in megabytes.

New memory is dear where it is large: every page of it is a trap into the kernel, on a virtual
machine a trap further, and that costs more than receiving the bytes. A slab is mapped once, in huge
pages where the kernel has them, and handed out again when nobody holds a view of it any more. What
was used last is handed out first: it is still in the processor's cache.

Slabs begin on a page, so that a disk can take them as they lie (`pastcache`).

Always holds: no more than `count_max` exist, and none is in two hands.
"""

import ctypes
import mmap
import threading
import weakref
from contextlib import suppress
from typing import Any

from tierlog.types import Bytes

_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)


class Slabs:
    """Views may die in any thread."""

    def __init__(self, *, size: int, count_max: int) -> None:
        self.size = size
        self.count_max = count_max
        self._kind: Any = type("Leased", (ctypes.c_char * size,), {"slabs": self})
        self._free: list[mmap.mmap] = []
        self._count = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """How many somebody holds."""
        return self._count - len(self._free)

    @property
    def is_plentiful(self) -> bool:
        """Whether slices may be lent to those who may be slow to give them back."""
        return 8 * self.used <= 7 * self.count_max

    def take(self, size: int) -> memoryview | None:
        """To be written once, by whoever takes it; None if it is too large or none is left."""
        slab = self._slab() if size <= self.size else None
        if slab is None:
            return None
        lease = self._kind.from_buffer(slab)
        # Not at exit: threads may still be sending from it.
        weakref.finalize(lease, self._free.append, slab).atexit = False
        return memoryview(lease).cast("B")[:size]

    def _slab(self) -> mmap.mmap | None:
        with self._lock:
            if self._free:
                return self._free.pop()
            if self._count >= self.count_max:
                return None
            self._count += 1
        try:
            return _mapped(self.size)
        except BaseException:
            with self._lock:
                self._count -= 1  # Memory was short for a moment: there may be some later.
            raise


def _mapped(size: int) -> mmap.mmap:
    slab = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if _HUGE is not None:
        with suppress(OSError):  # A kernel without them.
            slab.madvise(_HUGE)
    return slab


def may_lend(view: Bytes) -> bool:
    """Whether slices of it may be handed on to somebody slow: it is a slab, of which there are
    enough. Of all other memory a copy of what is wanted holds less."""
    slabs = getattr(view.obj, "slabs", None) if isinstance(view, memoryview) else None
    return slabs is not None and slabs.is_plentiful
