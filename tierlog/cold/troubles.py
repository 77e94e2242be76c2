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


class LogDiverged(ColdError):
    """The local log disagrees with the bucket, which counts: stop appending, begin it anew."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, path: str, reason: str, *, of: str = "") -> None:
        super().__init__(
            f"{object_of(path, of)} disagrees with the bucket: {reason}. It is not uploaded"
        )
        self.path = path
        self.reason = reason


class ObjectWrong(ColdError):
    """An object that was sent is not what the store answers for. It is not relied upon."""

    kind: ClassVar[Kind] = Kind.CORRUPT

    def __init__(self, key: str, *, wanted: str, found: str, of: str = "") -> None:
        super().__init__(f"{object_of(key, of)}: the store has {found}, {wanted} was sent")
        self.key = key
