"""Deliberate faults of expiry and collection, to prove that their story finds something. Where a
second line of defence covers the first, both are undone, and it says so."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.crashpoints.bugs import Bug
from tierlog.cold import changes, collector, expiry, invariants
from tierlog.cold.collector import PartitionCollector
from tierlog.cold.head import Head
from tierlog.cold.publisher import Draft


@contextmanager
def garbage_before_log_start() -> Iterator[None]:
    """Segments become garbage while HEAD still serves them; the invariants, which would refuse such
    a HEAD, are off as well."""
    expire = changes.Expire.__call__

    async def hasty(self: changes.Expire, head: Head) -> Draft | None:
        draft = await expire(self, head)
        return None if draft is None else Draft(head=_started(draft.head, head))

    with patch.object(changes.Expire, "__call__", hasty), unchecked("expired", "start", "totals"):
        yield


def _started(head: Head, before: Head) -> Head:
    return replace(head, log_start=before.log_start)


def receipt_without_deletion() -> AbstractContextManager[object]:
    """What could not be deleted is told all the same."""

    async def forgetful(*_: Any) -> None:
        """Nothing is deleted."""

    return patch.object(PartitionCollector, "_delete", forgetful)


def deletion_without_receipt() -> AbstractContextManager[object]:
    async def silent(*_: Any) -> None:
        """Nothing is told."""

    return patch.object(PartitionCollector, "_write_receipt", silent)


@contextmanager
def hold_ignored() -> Iterator[None]:
    """Retention passes it, and what then is garbage goes; the invariant is off as well."""
    with (
        patch.object(expiry, "hold_limit", lambda head: head.next_offset),
        patch.object(collector, "covering", lambda *_: None),
        patch.object(collector, "when_collected", lambda one, _: one.not_before_ms),
        unchecked("holds"),
    ):
        yield


def grace_forgotten() -> AbstractContextManager[object]:
    """What is garbage goes at once; nobody asks again whether it may."""

    async def allowed(*_: Any) -> None:
        """It may."""

    return _both(
        patch.object(PartitionCollector, "_dues", lambda _, head: [0.0] * len(head.garbage)),
        patch.object(PartitionCollector, "_refusal", allowed),
        unchecked("leaving"),
    )


@contextmanager
def _both(*patches: AbstractContextManager[object]) -> Iterator[None]:
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


@contextmanager
def unchecked(*names: str) -> Iterator[None]:
    def nothing(*_: Head) -> Iterator[str]:
        return iter(())

    of_one = {name: nothing for name in names if name in invariants.OF_ONE}
    of_two = {name: nothing for name in names if name in invariants.OF_TWO}
    with patch.dict(invariants.OF_ONE, of_one), patch.dict(invariants.OF_TWO, of_two):
        yield


BUGS = (
    Bug("garbage before the log start moved", garbage_before_log_start, ("expire",)),
    Bug("a receipt without the deletion", receipt_without_deletion, ("collect",)),
    Bug("a deletion without a receipt", deletion_without_receipt, ("collect",)),
    Bug("a hold is ignored", hold_ignored, ("expire",)),
    Bug("collected without asking again, grace or not", grace_forgotten, ("collect",)),
)
