"""Ranges of offsets that a log does not have, and which of them are accounted for."""

from collections.abc import Iterable
from dataclasses import dataclass

from tierlog.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets [start, end) whose bytes are not in the log; `kind` is the suffix of their file."""

    start: Offset
    end: Offset
    kind: str


def uncovered(
    start: Offset, end: Offset, accounted: Iterable[tuple[Offset, Offset]]
) -> list[tuple[Offset, Offset]]:
    """The parts of [start, end) that no accounted range covers."""
    parts = []
    for from_, to in sorted(accounted):
        if from_ >= end:
            break
        if from_ > start:
            parts.append((start, from_))
        start = max(start, to)
    if start < end:
        parts.append((start, end))
    return parts
