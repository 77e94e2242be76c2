"""Disk errors as errors of a store."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tierlog.objectstore.errors import (
    NoSuchObject,
    StoreBadRequest,
    StoreDenied,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from tierlog.objectstore.port import Outcome, Written

NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)
"""No such name; or a directory, which is no object; or a file where the key has a directory."""

CANNOT_BE = (errno.ENAMETOOLONG, errno.EEXIST, *NOT_THERE)
"""Of a write: the key cannot have a file beside those that are there."""

NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Somebody must act: give rights."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def reading(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        if fault.errno in NOT_THERE:
            raise NoSuchObject(key) from fault
        raise _refused(fault, key) or _failed(fault, key) from fault


@contextmanager
def preparing(key: str) -> Iterator[None]:
    """Of a write, before anything can be seen."""
    try:
        yield
    except OSError as fault:
        if fault.errno in CANNOT_BE:
            raise StoreBadRequest(f"{key} cannot be a file in this folder: {fault}") from fault
        raise _refused(fault, key) or _failed(fault, key) from fault


@contextmanager
def working() -> Iterator[None]:
    """Of whatever else goes wrong in the folder."""
    try:
        yield
    except OSError as fault:
        raise _refused(fault, "a call") or _failed(fault, "a call") from fault


def _refused(fault: OSError, key: str) -> StoreError | None:
    if fault.errno == errno.ENAMETOOLONG:
        return StoreBadRequest(f"{key} has a part too long for a file name")
    if fault.errno in NO_ROOM:
        return StoreFull(f"the folder has no room for {key}: {fault}")
    if fault.errno in NOT_ALLOWED:
        return StoreDenied(f"the folder refuses {key}: {fault}")
    return None


def _failed(fault: OSError, key: str) -> StoreError:
    return StoreUnavailable(f"the disk failed for {key}: {fault}")


def uncertain(detail: object) -> Written:
    return Written(outcome=Outcome.AMBIGUOUS, detail=str(detail))
