"""Tombstones that nobody waits for, in steps of a bounded size.

A step is one batch of the log and one turn of the loop. What is gathered for a step is decided in
the turn that carries it out: between two steps anybody may commit, join or leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.groups.values import GroupStep

if TYPE_CHECKING:
    from tierlog.groups.formats import StateRecord

RECORDS_MAX: Final = 500
"""Some milliseconds."""
BYTES_MAX: Final = 256 << 10
"""A quarter of `message.max.bytes`; one more record, a group's id of 32 KiB included, fits."""
LOOKS_MAX: Final = 5_000
"""Offsets that were looked at, whether or not they go: some milliseconds, too."""


class Piece:
    def __init__(self) -> None:
        self._step = GroupStep()
        self._bytes = 0
        self._looks = 0

    def look(self) -> None:
        self._looks += 1

    def add(self, record: StateRecord, size: int) -> None:
        self._step.records.append(record)
        self._bytes += size

    @property
    def is_full(self) -> bool:
        return (
            self._looks >= LOOKS_MAX
            or len(self._step.records) >= RECORDS_MAX
            or self._bytes >= BYTES_MAX
        )

    def take(self) -> GroupStep:
        """What was gathered; the next one begins."""
        step, self._step = self._step, GroupStep()
        self._bytes = self._looks = 0
        return step
