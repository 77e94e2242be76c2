"""Room on the disk, and what producers are told when it runs out.

Below the throttle mark producers are slowed down: the answer to a produce is held back for a time
that grows as the room shrinks, and so are those behind it on the connection. Below the refuse mark
producing is refused with a retriable error. Nothing that was accepted is ever dropped for room, and
consumers do not notice.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierlog.broker.errors import OutOfSpace, ReadOnly

if TYPE_CHECKING:
    from tierlog.env import Disk
    from tierlog.errors import TierlogError

logger = logging.getLogger(__name__)

THROTTLE_MS_MAX = 1000
"""The longest delay of one request; clients give up after 30 s by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Free bytes below which producers are slowed down, and refused."""

    throttle_bytes: int
    refuse_bytes: int


class Space:
    """What was last seen of the disk. `look` costs a system call; the rest is a comparison."""

    __slots__ = (
        "_disk",
        "_fence",
        "_is_refusing",
        "_path",
        "_reserve_bytes",
        "free_bytes",
        "is_pressing",
        "marks",
        "throttle_ms",
    )

    def __init__(self, disk: Disk, path: str, marks: Marks, *, reserve_bytes: int = 0) -> None:
        """`reserve_bytes`: what the log leaves of itself, and refuses appends for."""
        self._disk = disk
        self._reserve_bytes = reserve_bytes
        self._path = path
        self.marks = marks
        self._fence: TierlogError | None = None
        self._is_refusing = False
        self.throttle_ms = 0
        self.is_pressing = False
        """Whether producers must be slowed down or refused. Asked with every produce."""
        self.free_bytes = 0
        self.look()

    @property
    def refused_below(self) -> int:
        """Free bytes below which producers come to nothing, for one reason or the other."""
        return max(self.marks.refuse_bytes, self._reserve_bytes)

    @property
    def is_refusing(self) -> bool:
        return self._is_refusing

    def look(self) -> None:
        """Ask the disk again."""
        self.free_bytes = free = self._disk.free_bytes(self._path)
        was_refusing, self._is_refusing = self._is_refusing, free < self.marks.refuse_bytes
        if self._is_refusing and not was_refusing:
            logger.error(
                "%s has %d bytes free, less than %d: producing is refused until there is room",
                self._path,
                free,
                self.marks.refuse_bytes,
            )
        elif was_refusing and not self._is_refusing:
            logger.warning("%s has room again: producing goes on", self._path)
        self.throttle_ms = throttle_ms(free, self.marks)
        self.is_pressing = self._is_refusing or self.throttle_ms > 0 or self._fence is not None

    def fence(self, why: TierlogError) -> None:
        """Take no more records, for good: another life of the cluster has the bucket."""
        self._fence = why
        self.is_pressing = True

    def check(self) -> None:
        """Raises `ReadOnly` once fenced, `OutOfSpace` while producing is refused."""
        if self._fence is not None:
            raise ReadOnly(f"this node takes no more records: {self._fence}")
        if self._is_refusing:
            raise OutOfSpace(
                f"the disk has {self.free_bytes} bytes free and keeps {self.marks.refuse_bytes}; "
                "free some space: delete topics or records that nobody needs, or see why uploads "
                "lag"
            )


def throttle_ms(free_bytes: int, marks: Marks) -> int:
    """The delay of a produce: nothing above the throttle mark, the longest at the refuse mark."""
    room = marks.throttle_bytes - marks.refuse_bytes
    missing = marks.throttle_bytes - free_bytes
    if missing <= 0 or room <= 0:
        return 0
    return min(THROTTLE_MS_MAX, THROTTLE_MS_MAX * missing // room)
