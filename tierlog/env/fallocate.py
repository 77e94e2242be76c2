"""fallocate(2) with FALLOC_FL_KEEP_SIZE, which Python's `os` does not offer.

`os.posix_fallocate` grows the file; a log segment must keep its size, because after a crash that
says where the scan ends.
"""

import ctypes
import ctypes.util
import errno
import os

FALLOC_FL_KEEP_SIZE = 1  # linux/falloc.h

_libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
_fallocate = _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_fallocate.restype = ctypes.c_int


def fallocate_keep_size(fd: int, size: int) -> None:
    """Reserve blocks for the first `size` bytes. A file system that cannot is not an error."""
    if _fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, size) == 0:
        return
    code = ctypes.get_errno()
    # Reserving is an optimisation: on tmpfs-like or network file systems the writes still work.
    if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
        raise OSError(code, os.strerror(code))
