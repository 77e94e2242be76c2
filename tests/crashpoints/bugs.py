"""Deliberate faults of the cold tier, to prove that the crash points find something.

Each is a small wrong change that a tired engineer might make; `plant` applies it for the time of a
`with` block.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from tierlog.cold import comparing, dropper, restore
from tierlog.cold.cell import Seen
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head
from tierlog.cold.publisher import Draft, Publisher
from tierlog.cold.staging import Staged
from tierlog.cold.uploader import PartitionUploader


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
        self.log.drop(entry.next_offset)
        return entry

    return patch.object(PartitionUploader, "_send_once", send_and_drop)


def claim_without_check() -> AbstractContextManager[object]:
    """Neither leader epoch nor process is looked at."""
    return patch.object(Publisher, "_judge_writer", lambda _self, _found: None)


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

    async def believe(*_: object) -> None:
        """Whatever the bucket has, is ours."""

    with (
        patch.object(dropper, "check_lineage", lambda *_, **__: None),
        patch.object(comparing, "require_same", believe),
        patch.object(dropper.PartitionDropper, "_end", lambda self: self._prefix.uploaded_end),
    ):
        yield


BUGS = (
    Bug("drop before publish", drop_before_publish, ("upload",)),
    Bug("claim without a check of the writer", claim_without_check, ("claim",)),
    Bug("HEAD before its pages", head_before_pages, ("page sealing",)),
    Bug("restore without a plan", restore_without_plan, ("restore",)),
    Bug("a zombie drops what it alone has", drop_what_another_published, ("drop",)),
)
