"""Why a partition is not uploaded although the store is well."""

from typing import ClassVar

from tierlog.cold.errors import ColdError
from tierlog.cold.refusals import object_of
from tierlog.errors import Kind
from tierlog.types import Offset


class LogDamaged(ColdError):
    """Records that were acknowledged are missing locally: nothing behind them can be published."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, path: str, *, start: Offset, end: Offset, of: str = "") -> None:
        super().__init__(
            f"{object_of(path, of)}: offsets [{start}, {end}) are damaged and not in the bucket; "
            f"nothing from {start} on is uploaded. The bytes are kept beside the log: repair them, "
            f"or delete the records up to {end}"
        )
        self.start = start
        self.end = end


class SegmentDamaged(ColdError):
    """A sealed segment that is not in the bucket has rotted: nothing from there on is published."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, path: str, reason: str, *, start: Offset, end: Offset, of: str) -> None:
        """`[start, end)` is what cannot be read."""
        super().__init__(
            f"{object_of(path, of)}: offsets [{start}, {end}) are damaged and not in the bucket "
            f"({reason}); nothing from {start} on is uploaded. Bring the file back from a copy "
            f"while the node is stopped, or delete the records up to {end}"
        )
        self.path = path
        self.start = start
        self.end = end


class LogDiverged(ColdError):
    """The local log disagrees with the bucket, which counts: stop appending, begin it anew."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, path: str, reason: str, *, of: str = "") -> None:
        super().__init__(
            f"{object_of(path, of)} disagrees with the bucket: {reason}. It is not uploaded"
        )
        self.path = path
        self.reason = reason


class LogGap(ColdError):
    """Records before the local log are not in the bucket either, and nobody deleted them."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, path: str, *, start: Offset, end: Offset) -> None:
        super().__init__(
            f"{path}: offsets [{start}, {end}) are neither in the log nor in the manifest, and "
            f"nobody deleted them; nothing is uploaded. The store may show an older manifest than "
            f"it had: bring the newer one back, or delete the records up to {end}"
        )
        self.start = start
        self.end = end


class LogDiffers(ColdError):
    """The bucket has other records under these offsets. The local ones are kept."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, path: str, key: str, reason: str) -> None:
        super().__init__(
            f"{path} is not what {key} holds: {reason}. Another process wrote the object, perhaps "
            f"from a copy of this data directory; the local records are kept"
        )
        self.path = path
        self.key = key
        self.reason = reason


class LocalDamaged(ColdError):
    """The local bytes of these offsets are not what anybody wrote: they prove nothing."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, path: str, *, start: Offset, end: Offset, reason: str) -> None:
        super().__init__(f"{path}: offsets [{start}, {end}) are damaged on the disk: {reason}")
        self.start = start
        self.end = end


class ObjectWrong(ColdError):
    """An object that was sent is not what the store answers for. It is not relied upon."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, *, wanted: str, found: str, of: str = "") -> None:
        super().__init__(f"{object_of(key, of)}: the store has {found}, {wanted} was sent")
        self.key = key


class ObjectLost(ColdError):
    """The store lost a published object, and it cannot be put back. The local copy is kept."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, *, found: str, reason: str) -> None:
        super().__init__(
            f"the store lost what was published: {found}. It cannot be put back: {reason}. The "
            f"local copy is kept, and with it everything behind it"
        )
        self.key = key
