"""The error tree.

Errors are grouped by what the caller should do next, not by where they arose. Context travels in
fields, the sentence is for people. Rooms subclass `TierlogError` beside the code that raises; the
table from error type to Kafka error code lives in `broker/`.
"""

from enum import Enum, auto
from typing import ClassVar


class Kind(Enum):
    """What the caller should do next."""

    RETRY = auto()
    """Nothing is wrong with the request; the same call may succeed later."""
    FENCED = auto()
    """Somebody newer has taken over: stop, do not retry."""
    INVALID = auto()
    """The request itself is wrong: tell its sender."""
    CORRUPT = auto()
    """Stored bytes are not what was written: repair from another copy, tell the operator."""
    UNAVAILABLE = auto()
    """A part this needs is down or full: the caller may retry, the operator must act."""


class TierlogError(Exception):
    """Root of everything tierlog raises on purpose."""

    kind: ClassVar[Kind] = Kind.INVALID
