"""Deliberate faults of the cold tier, to prove that the crash points find something.

Each is a small wrong change that a tired engineer might make; `plant` applies it for the time of a
`with` block.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tierlog.cold import dropper, restore
from tierlog.cold.cell import Cell, Seen
from tierlog.cold.changes import Append
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head
from tierlog.cold.publisher import Draft, Publisher
from tierlog.cold.refusals import NotNext, SwapLost
from tierlog.cold.staging import Staged
from tierlog.cold.uploader import PartitionUploader
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Outcome


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    plant: Callable[[], AbstractContextManager[object]]
    stages: tuple[str, ...]
    """Where to look first."""


def drop_before_publish() -> AbstractContextManager[object]:
    """What the store has taken goes from the disk at once."""
    send_once = PartitionUploader._send_once

    async def send_and_drop(self: PartitionUploader, staged: Staged) -> Entry:
        entry = await send_once(self, staged)
        self.log.trim(entry.next_offset)
        return entry

    return patch.object(PartitionUploader, "_send_once", send_and_drop)


def claim_without_check() -> AbstractContextManager[object]:
    """Neither leader epoch nor process is looked at."""
    return patch.object(Publisher, "_judge_writer", lambda _self, _found: None)


@contextmanager
def lost_without_read_back() -> Iterator[None]:
    """412, or no answer, means that the commit did not happen."""

    async def swap(self: Cell[Any], seen: Seen[Any] | None, value: Any) -> Seen[Any]:
        written = await self._send(BytesBody(self._encode(value)), seen)
        if written.outcome is not Outcome.WON:
            raise SwapLost(self.key)
        return Seen(value, written.etag)

    async def not_yet_in(self: Append, head: Head) -> tuple[Entry, ...]:
        if self._entries[0].base != head.next_offset:
            base = self._entries[0].base
            raise NotNext(self._keys.head, base=base, next_offset=head.next_offset)
        return self._entries

    with patch.object(Cell, "swap", swap), patch.object(Append, "_not_yet_in", not_yet_in):
        yield


@contextmanager
def head_before_pages() -> Iterator[None]:
    """Pages are written once HEAD refers to them."""
    write_pages, swap = Publisher._write_pages, Publisher._swap
    drafts: dict[int, Draft] = {}

    async def remember(self: Publisher, draft: Draft) -> None:
        drafts[id(self)] = draft

    async def swap_and_write(self: Publisher, seen: Seen[Head] | None, value: Head) -> None:
        await swap(self, seen, value)
        if (draft := drafts.pop(id(self), None)) is not None:
            await write_pages(self, draft)

    with (
        patch.object(Publisher, "_write_pages", remember),
        patch.object(Publisher, "_swap", swap_and_write),
    ):
        yield


@contextmanager
def restore_without_plan() -> Iterator[None]:
    """A restore that is repeated does not know who it is."""
    with patch.multiple(restore, write_plan=_forget, remove_plan=_forget):
        yield


def _forget(*_: object) -> None:
    """Nothing is written, nothing removed."""


@contextmanager
def drop_what_another_published() -> Iterator[None]:
    """Offsets below the end of the bucket go, whoever wrote them there."""
    with patch.object(dropper, "check_lineage", lambda *_, **__: None):
        yield


BUGS = (
    Bug("drop before publish", drop_before_publish, ("upload",)),
    Bug("claim without a check of the writer", claim_without_check, ("claim",)),
    Bug("412 taken for lost, without read-back", lost_without_read_back, ("publish",)),
    Bug("HEAD before its pages", head_before_pages, ("page sealing",)),
    Bug("restore without a plan", restore_without_plan, ("restore",)),
    Bug("a zombie drops what it alone has", drop_what_another_published, ("drop",)),
)
