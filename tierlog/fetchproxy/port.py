"""The cold side of one partition, as far as reading it needs."""

from typing import Protocol

from tierlog.cold.entry import Entry
from tierlog.cold.head import Head
from tierlog.types import Offset, TimestampMs


class ColdPrefix(Protocol):
    """Finds segments by the last known HEAD and the pages below it. May raise what stores raise.

    The name of a segment object is never used for other bytes, so whatever was read of one stays
    right, whatever happens to the manifest.
    """

    @property
    def head(self) -> Head | None:
        """Last known; None before the first publish."""
        ...

    def full_key(self, key: str) -> str:
        """Of a key as entries have it, relative to the partition."""
        ...

    async def renew(self) -> None:
        """Ask for a newer HEAD, because an object is missing. Raises nothing: there may be none."""
        ...

    async def entry_for(self, offset: Offset) -> Entry | None:
        """The segment that holds `offset`, or the first behind it; None at the end."""
        ...

    async def entry_by_time(self, timestamp: TimestampMs, *, start: Offset) -> Entry | None:
        """The first segment that ends behind `start` and has a record at `timestamp` or later."""
        ...

    async def entry_latest(self, *, start: Offset) -> Entry | None:
        """The segment with the largest timestamp of those that end behind `start`; the first of
        several."""
        ...
