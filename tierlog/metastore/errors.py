"""What can go wrong with a metastore, by what the caller should do next."""

from typing import ClassVar

from tierlog.errors import Kind, TierlogError


class MetaStoreError(TierlogError):
    """Root of this room."""


class InvalidTxn(MetaStoreError):
    """The transaction breaks a rule of the port: a bound, or one key twice. Nothing changed."""


class MetaStoreUnavailable(MetaStoreError):
    """The store did not take the request. Nothing changed; the same call may succeed later."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class MetaStoreFull(MetaStoreUnavailable):
    """The disk has no room for the transaction. Nothing changed; make room and try again."""


class TxnUncertain(MetaStoreError):
    """The answer was lost: the transaction was applied whole, or not at all. Read back first."""

    kind: ClassVar[Kind] = Kind.RETRY


class MetaStoreBroken(MetaStoreError):
    """A write or fsync failed, so the page cache can no longer be believed.

    Latched until a restart has read what is really on the disk. Transactions that were under way
    are then there whole, or not at all.
    """

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class MetaStoreClosed(MetaStoreError):
    """The store was closed by its owner."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class MetaStoreInUse(MetaStoreError):
    """Another process holds the directory's lock."""

    kind: ClassVar[Kind] = Kind.FENCED


class MetaStoreDamaged(MetaStoreError):
    """Stored bytes are not what was written. Nothing was changed: restore the directory."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path}: {what}. Nothing was changed. Keep a copy of the directory, check the disk, "
            "and put back the whole directory from a backup: its files belong together"
        )
        self.path = path


class MetaStoreNewer(MetaStoreError):
    """A file was written by a newer tierlog. Nothing was changed: run that version, or newer."""

    def __init__(self, path: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{path} has format version {found}, this tierlog reads up to {known}: "
            "start the version that wrote it, or a newer one"
        )
        self.path = path


class WatchLost(MetaStoreError):
    """The history that the watch asks for is gone: list again, and watch from that revision."""

    kind: ClassVar[Kind] = Kind.RETRY

    def __init__(self, after: int, *, oldest: int) -> None:
        super().__init__(
            f"changes after revision {after} are no longer kept, only those after {oldest}: "
            "list again and watch from the revision of the list"
        )
        self.after = after
        self.oldest = oldest


class SessionLost(MetaStoreError):
    """The session has expired or was closed: its keys are gone, nothing can be put under it."""

    kind: ClassVar[Kind] = Kind.FENCED
