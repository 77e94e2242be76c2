"""What can go wrong with a cold read, by what the caller should do next."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from tierlog.errors import Kind, TierlogError
from tierlog.objectstore.errors import NoSuchObject, StoreError


class ColdReadError(TierlogError):
    """Root of this room."""


class ColdUnavailable(ColdReadError):
    """The store did not give the bytes; the same read may succeed later. The cause says why.

    Also where the store says that the object is not there, or denies it: the manifest names it, so
    it is not for the consumer to take this for the end of its records.
    """

    kind: ClassVar[Kind] = Kind.RETRY

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key} cannot be read now: {reason}")
        self.key = key


class ColdMissing(ColdUnavailable):
    """The store says that the object is not there. If a newer HEAD does not name it any more, the
    records are in another: small segments are merged, and the old objects go after a while."""


class TooManyReads(ColdReadError):
    """So many reads are under way that this one was not begun; ask again when some have ended."""

    kind: ClassVar[Kind] = Kind.RETRY


@contextmanager
def map_store_errors(key: str) -> Iterator[None]:
    """The one door: no error of the store travels further, and none of the cache's disk."""
    try:
        yield
    except NoSuchObject as fault:
        raise ColdMissing(key, str(fault)) from fault
    except StoreError as fault:
        raise ColdUnavailable(key, str(fault)) from fault
    except OSError as fault:
        raise ColdUnavailable(key, f"the disk of the cache: {fault}") from fault


class ChunkCorrupt(ColdReadError):
    """What the store gave, twice, is not what was uploaded. None of it was served.

    Carries key, position and reason. Other copies or versions of the object may be sound.
    """

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, *, position: int, reason: str) -> None:
        super().__init__(f"{key} at position {position}: {reason}")
        self.key = key
        self.position = position
        self.reason = reason
