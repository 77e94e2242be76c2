"""Cold reads that fail, as lines in the log: who reads what, where it should be, and why not.

A consumer that meets an error asks again, ten times a second and with all its partitions, so a line
for each would bury the first. A partition is told of once a minute for each reason, a reason once
in ten seconds for the whole node; a line says how many failed without one since the last.
"""

import logging

from tierlog.env import Clock
from tierlog.errors import Kind, TierlogError
from tierlog.fetchproxy.port import ColdPrefix
from tierlog.objectstore.errors import NoSuchObject, StoreDenied

logger = logging.getLogger(__name__)

SAME_PAUSE_S = 60.0
REASON_PAUSE_S = 10.0
REMEMBERED_MAX = 4096
"""Partitions in trouble; beyond that some may be told of sooner."""


def reason_of(error: BaseException) -> str:
    """In two words: what whoever reads the line has to look at first."""
    cause = error.__cause__
    if isinstance(cause, NoSuchObject):
        return "missing object"
    if isinstance(cause, StoreDenied):
        return "access denied"
    if isinstance(cause, OSError):
        return "local disk"
    if Kind.CORRUPT in (getattr(error, "kind", None), getattr(cause, "kind", None)):
        return "corrupt chunk"
    return "store away"


class Complaints:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._same: dict[tuple[str, str], float] = {}
        self._reasons: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    def tell(self, prefix: ColdPrefix, what: str, error: TierlogError) -> None:
        """`what` was asked for: an offset, a time."""
        reason, path = reason_of(error), prefix.full_key("")
        if not self._is_due(path, reason):
            self._untold[reason] = self._untold.get(reason, 0) + 1
            return
        head = prefix.head
        name = path if head is None else f"{head.topic}-{head.partition}"
        untold = self._untold.pop(reason, 0)
        more = f" (and {untold} more for this reason)" if untold else ""
        logger.error("cold read of %s at %s failed, %s: %s%s", name, what, reason, error, more)

    def _is_due(self, path: str, reason: str) -> bool:
        now, never = self._clock.monotonic(), float("-inf")
        if now < max(self._same.get((path, reason), never), self._reasons.get(reason, never)):
            return False
        if len(self._same) >= REMEMBERED_MAX:
            self._same.clear()
        self._same[path, reason] = now + SAME_PAUSE_S
        self._reasons[reason] = now + REASON_PAUSE_S
        return True
