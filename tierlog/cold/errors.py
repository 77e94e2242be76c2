"""What can go wrong with the cold tier, by what the caller should do next."""

from functools import partial
from typing import Any, ClassVar

from tierlog.errors import Kind, TierlogError


class ColdError(TierlogError):
    """Root of this room."""


class ColdCorrupt(ColdError):
    """An object of the bucket is not what its format, its reference or its checksum calls for.

    Carries the key and the reason. Nothing was changed: other copies and versions may be sound.
    """

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class TailCut(ColdCorrupt):
    """The end of a segment object that was read does not hold its whole footer.

    Not damage where less than the object was read: ask again for the last `needed` bytes.
    """

    def __init__(self, key: str, *, needed: int, present: int) -> None:
        super().__init__(key, f"the last {needed} bytes are needed, {present} were given")
        self.needed = needed


class NewerFormat(ColdError):
    """The object was written by a newer tierlog: run that version, or a newer one."""

    def __init__(self, key: str, *, found: int, known: int) -> None:
        super().__init__(
            f"{key} has format {found}, this tierlog reads up to {known}: "
            "start the version that wrote it, or a newer one"
        )
        self.key = key
        self.found = found


class SegmentUnsound(ColdError):
    """A local segment must not be uploaded: its bytes are not those that were acknowledged (U1)."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, reason: str, *, position: int) -> None:
        super().__init__(f"at position {position}: {reason}")
        self.reason = reason
        self.position = position

    def __reduce__(self) -> tuple[Any, ...]:
        """Raised in a worker process, told in this one."""
        return partial(SegmentUnsound, position=self.position), (self.reason,)


class InvariantBroken(ColdError):
    """A manifest that must not be published; `name` says which invariant, `reason` how."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason
