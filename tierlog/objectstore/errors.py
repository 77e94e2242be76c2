"""What can go wrong with an object store, by what the caller should do next.

Adapters translate at one door; no `ClientError`, no HTTP status travels further. A conditional
write raises only what is certain: that it did not happen (`StoreDenied`, `StoreBadRequest`). Where
it may have happened it answers `Outcome.AMBIGUOUS` instead.
"""

from typing import ClassVar

from tierlog.errors import Kind, TierlogError


class StoreError(TierlogError):
    """Root of this room."""

    also_asked: tuple[str, ...] = ()
    """Kinds of requests that it took beside the one that was called for: they are billed, too."""


class NoSuchObject(StoreError):
    """The key, or that version of it, is not there."""

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no object {key}")
        self.key = key


class ObjectChanged(StoreError):
    """The object is not the one that was asked for: its ETag differs."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, *, wanted: str, found: str) -> None:
        super().__init__(f"{key} has ETag {found}, not {wanted}")
        self.key = key


class StoreUnavailable(StoreError):
    """The store did not answer, answered 5xx or too late, or cut its answer short."""

    kind: ClassVar[Kind] = Kind.RETRY


class StoreThrottled(StoreUnavailable):
    """The store asks to be asked less often (503 SlowDown, 429)."""


class StoreDenied(StoreError):
    """Credentials, permissions or a missing bucket: somebody must act, repeating does not help."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class StoreFull(StoreDenied):
    """There is no room for the object: somebody must make some, or expiry does."""


class StoreBadRequest(StoreError):
    """The store refuses the request as such: a wrong checksum, a wrong range, a name too long."""


class StoreLies(StoreError):
    """The store breaks a promise that the manifests rest on; the sentence says what to do."""

    kind: ClassVar[Kind] = Kind.CORRUPT
