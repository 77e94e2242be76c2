"""Holds: offsets of a partition that nobody deletes until the hold is released.

A hold stands in HEAD and nowhere else. It wins over retention, DeleteRecords and the deletion of
its topic: `log_start` does not pass into it, and what is garbage already stays while it covers it.
Placing and releasing are commits like any other, fit to be tried again, so that whoever is told of
one can rely on it (U7b).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tierlog.cold.fields import INTEGER_MAX
from tierlog.cold.publisher import Draft
from tierlog.cold.refusals import HoldRefused, name_of
from tierlog.types import Offset

if TYPE_CHECKING:
    from tierlog.cold.head import Head, Hold

HOLDS_MAX: Final = 64
"""Of one partition. HEAD is written with every publish, and holds are in it."""
REASON_CHARACTERS_MAX: Final = 256
NO_END: Final = Offset(INTEGER_MAX)
"""Of a hold that covers what is still to come as well."""
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def check_words(hold_id: str, reason: str) -> None:
    """Raises `HoldRefused` unless others can read, write and tell them apart."""
    if not _ID.fullmatch(hold_id):
        raise HoldRefused(
            f"{hold_id[:80]!r} is no id of a hold; it has 1 to 64 of A-Z a-z 0-9 . _ -"
        )
    if not reason.strip() or not reason.isprintable() or len(reason) > REASON_CHARACTERS_MAX:
        raise HoldRefused(
            f"the reason of a hold is one line of 1 to {REASON_CHARACTERS_MAX} characters, "
            f"this one has {len(reason)}"
        )


def offsets_of(start: Offset, end: Offset) -> str:
    """As people say it."""
    return f"offsets from {start} on" if end == NO_END else f"offsets {start} to {end - 1}"


def movable_to(head: Head, start: Offset) -> Offset:
    """How far the log start may go towards `start`: up to the first hold before it. Where records
    were deleted by a process that did not know of the hold, what the bucket has of them stays."""
    return min([start, *(one.start for one in head.holds if one.end > head.log_start)])


class PlaceHold:
    """The hold is in HEAD. So it is where one of its id covers as much for the same reason: asked
    for again, it is done. Raises `HoldRefused`."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    async def __call__(self, head: Head) -> Draft | None:
        hold, known = self._hold, find(head, self._hold.id)
        if known is not None:
            if known.start <= hold.start and hold.end <= known.end and known.reason == hold.reason:
                return None
            raise HoldRefused(
                f"there is a hold {hold.id} already, of {offsets_of(known.start, known.end)} "
                f"({known.reason}); give this one another id, or release that one",
                of=name_of(head),
            )
        check_is_there(hold, head.log_start, of=name_of(head))
        check_room(len(head.holds), of=name_of(head))
        return _changed(head, (*head.holds, hold))


class ReleaseHold:
    """No hold of this id is in HEAD."""

    def __init__(self, hold_id: str) -> None:
        self._id = hold_id
        self.released: Hold | None = None
        """What was there; known after a call."""

    async def __call__(self, head: Head) -> Draft | None:
        self.released = find(head, self._id) or self.released
        left = tuple(one for one in head.holds if one.id != self._id)
        return None if left == head.holds else _changed(head, left)


def find(head: Head, hold_id: str) -> Hold | None:
    return next((one for one in head.holds if one.id == hold_id), None)


def check_is_there(hold: Hold, log_start: Offset, *, of: str) -> None:
    """Raises `HoldRefused` where some of it is gone, or there is nothing to keep."""
    if hold.start < log_start:
        raise HoldRefused(
            f"{offsets_of(hold.start, min(hold.end, log_start))} are deleted already: it begins at "
            f"{log_start}",
            of=of,
        )
    if hold.end <= hold.start:
        raise HoldRefused(f"nothing lies from offset {hold.start} to {hold.end}", of=of)


def check_room(count: int, *, of: str) -> None:
    """Raises `HoldRefused` where there is none for one more."""
    if count >= HOLDS_MAX:
        raise HoldRefused(
            f"it has {HOLDS_MAX} holds, as many as there may be; release one, or place one that "
            "covers several",
            of=of,
        )


def _changed(head: Head, holds: tuple[Hold, ...]) -> Draft:
    return Draft(head=replace(head, holds=holds, policy_version=head.policy_version + 1))
