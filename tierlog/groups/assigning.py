"""Words that all assignors share."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Spot: TypeAlias = tuple[bytes, int]
"""Topic id and partition."""

Shares: TypeAlias = dict[str, frozenset[Spot]]
"""By member id; also of those who get nothing."""


class Subscriber(NamedTuple):
    """A member, as assignors see it."""

    topics: frozenset[bytes]
    had: frozenset[Spot] = frozenset()
    """What it was to have before."""
    instance_id: str | None = None
