"""A partition that a fetch waits for: how much it could give, found without reading it.

Counted as Kafka does: the bytes that lie there, up to the limit that the request sets for the
partition, however the borders of batches fall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.types import Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.hot import Log
    from tierlog.wire.messages.fetch import FetchPartition


class Awaited:
    """One partition of a fetch that waits, and what it could give when it was last looked at."""

    __slots__ = ("_wake", "ask", "is_full", "key", "log", "size")

    def __init__(
        self,
        wake: Callable[[Awaited], None],
        key: str | bytes,
        ask: FetchPartition,
        log: Log,
    ) -> None:
        self._wake = wake
        self.key = key
        self.ask = ask
        self.log = log
        self.size = 0
        self.is_full = False

    def __call__(self) -> None:
        """Something happened to the log."""
        self._wake(self)

    def look(self) -> bool:
        """Measure anew, without reading; True if the fetch is to be answered for this alone."""
        log, ask = self.log, self.ask
        end = log.visible_end
        if not log.log_start <= ask.fetch_offset <= log.log_end:
            return True
        if ask.fetch_offset >= end:
            self.size, self.is_full = 0, False
            return False
        available, grows = log.measure(Offset(ask.fetch_offset), end=end)
        limit = max(ask.partition_max_bytes, 0)
        self.size = min(available, limit)
        self.is_full = available >= limit
        return not grows
