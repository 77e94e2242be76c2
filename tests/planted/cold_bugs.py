"""Deliberate faults in the cold tier, to prove that its simulation can find them.

The same game as in `bugs.py`, with a bucket: each is what a tired engineer might write. Several of
them undo two lines of defence at once, where one alone is covered by the other; they say so.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.planted.bugs import Bug
from tests.simulation.cold import cold
from tierlog.broker.partition import Partition
from tierlog.cold import invariants, sending
from tierlog.cold.cell import Cell, Seen
from tierlog.cold.choosing import Upcoming
from tierlog.cold.dropper import PartitionDropper
from tierlog.cold.head import Head
from tierlog.cold.layout import segment_key
from tierlog.cold.publisher import Publisher
from tierlog.cold.refusals import FencedByNewer, SwapLost
from tierlog.cold.uploader import PartitionUploader
from tierlog.fetchproxy.segmentindex import SegmentIndex
from tierlog.hot import Log
from tierlog.metastore import values
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Outcome, Stat
from tierlog.sim.world import simulate


def hunt_cold(seed: int) -> str | None:
    """What the oracle or the clients of a simulated cold tier complain about, if they do."""
    try:
        simulate(cold, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


# Compare and swap


@contextmanager
def refused_taken_for_lost() -> Iterator[None]:
    """Whatever is not a success means that somebody else leads now: nothing is read back."""

    async def hasty(self: Cell[Any], seen: Seen[Any] | None, value: Any) -> Seen[Any]:
        written = await self._send(BytesBody(self._encode(value)), seen)
        if written.outcome is Outcome.WON:
            return Seen(value, written.etag)
        raise SwapLost(self.key)

    commit_once = Publisher._commit_once

    async def stepping_down(self: Publisher, change: Any, nonce: str) -> Head | None:
        head = await commit_once(self, change, nonce)
        if head is None:
            self.fence = FencedByNewer(self.keys.head, mine=self.writer, found=self.writer)
            raise self.fence
        return head

    with (
        patch.object(Cell, "swap", hasty),
        patch.object(Publisher, "_commit_once", stepping_down),
    ):
        yield


@contextmanager
def swap_repeated_on_the_new_etag() -> Iterator[None]:
    """A conditional write that was refused is repeated on whatever stands there now, as an SDK
    might that was told to retry."""

    async def stubborn(self: Cell[Any], seen: Seen[Any] | None, value: Any) -> Seen[Any]:
        body = BytesBody(self._encode(value))
        while True:
            written = await self._send(body, seen)
            if written.outcome is Outcome.WON:
                return Seen(value, written.etag)
            seen = await self.read()

    with patch.object(Cell, "swap", stubborn):
        yield


@contextmanager
def head_read_once() -> Iterator[None]:
    """HEAD is asked for once and remembered: it is ours, who else would write it?"""
    read_once = Cell._read_once
    known: dict[int, Any] = {}

    async def remembered(self: Cell[Any]) -> Seen[Any] | None:
        if known.get(id(self), (None, None))[0] is not self:
            known[id(self)] = self, await read_once(self)
        found: Seen[Any] | None = known[id(self)][1]
        return found

    with patch.object(Cell, "_read_once", remembered):
        yield


@contextmanager
def claimed_without_process() -> Iterator[None]:
    """Writers are told apart by their leader epoch alone; the check before a publish as well."""

    def lenient(self: Publisher, found: Head) -> None:
        if found.writer.leader_epoch > self.writer.leader_epoch:
            raise FencedByNewer(self.keys.head, mine=self.writer, found=found.writer)

    with (
        patch.object(Publisher, "_judge_writer", lenient),
        patch.dict(invariants.OF_TWO, writer=lambda head, previous: iter(())),
    ):
        yield


def acknowledged_after_the_fence() -> AbstractContextManager[object]:
    """Whoever publishes the partition now, this node goes on taking records for it."""
    return patch.object(Partition, "check_fence", lambda self: None)


# Uploading


@contextmanager
def key_reused() -> Iterator[None]:
    """The key says which offsets, and is written again when a first try ended in doubt."""

    def plain(self: PartitionUploader, base: Any, last: Any) -> str:
        return segment_key(base=base, last=last, leader_epoch=0, node=1, attempt=1)  # type: ignore[arg-type]  # any

    async def overwrite(store: Any, key: str, staged: Any) -> None:
        await store.put(key, staged.body)

    with (
        patch.object(PartitionUploader, "_new_key", plain),
        patch.object(sending, "send", overwrite),
    ):
        yield


def doubtful_upload_published() -> AbstractContextManager[object]:
    """The store is not asked whether it has what was sent."""

    async def trusting(store: Any, key: str, entry: Any, tasks: Any, **_: Any) -> Stat:
        return Stat(key=key, size=entry.size, etag="")

    return patch.object(sending, "landed", trusting)


@contextmanager
def start_follows_the_disk() -> Iterator[None]:
    """HEAD's log start is that of the local log: a drop counts as a wish."""
    with patch.object(Log, "drop", Log.trim):
        yield


@contextmanager
def served_before_published() -> Iterator[None]:
    """Readers are told of a segment when it is sent, not when HEAD says so."""
    send = PartitionUploader._send

    async def proud(self: PartitionUploader, following: Upcoming, head: Head) -> Any:
        sent = await send(self, following, head)
        if sent is not None:
            entries = (*head.entries, sent.entry)
            end = sent.entry.next_offset
            self.prefix.adopt(
                replace(head, version=head.version + 1, entries=entries, next_offset=end)
            )
        return sent

    with patch.object(PartitionUploader, "_send", proud):
        yield


def dropped_before_published() -> AbstractContextManager[object]:
    """A segment that was sent leaves the disk."""

    async def hasty(self: PartitionDropper) -> None:
        for segment in self._log.sealed()[:-1]:
            if segment.next_offset > self._log.log_start:
                self._log.trim(segment.next_offset)

    return patch.object(PartitionDropper, "drop", hasty)


def chunks_unchecked() -> AbstractContextManager[object]:
    """What the store answers is served as it came."""
    return patch.object(SegmentIndex, "bad_block", lambda self, *args, **kwargs: None)


# Restoring


@contextmanager
def producer_ids_reused() -> Iterator[None]:
    """The restored cluster counts its producers from the first again."""
    state = values.ProducerIdsState

    class First(state):  # type: ignore[misc, valid-type]  # a class in a variable
        def __init__(self, **fields: Any) -> None:
            super().__init__()

    with patch.object(values, "ProducerIdsState", First):
        yield


TRIES = 30
"""A change anywhere in the broker shifts every schedule: the pinned seed is where to begin."""


def bug(name: str, plant: Callable[[], Any], seed: int) -> Bug:
    return Bug(name, plant, hunt_cold, seed, tries=TRIES)


COLD_BUGS = (
    bug("take a refused swap for a lost one", refused_taken_for_lost, 14),
    bug("repeat a refused swap on the new ETag", swap_repeated_on_the_new_etag, 4),
    bug("remember HEAD instead of reading it", head_read_once, 0),
    bug("claim without the process", claimed_without_process, 4),
    bug("acknowledge after the fence", acknowledged_after_the_fence, 3),
    bug("reuse the key of an upload", key_reused, 1),
    bug("publish an upload in doubt", doubtful_upload_published, 3),
    bug("let HEAD's log start follow the disk", start_follows_the_disk, 0),
    bug("serve beyond what is published", served_before_published, 0),
    bug("drop before the publish", dropped_before_published, 2),
    bug("serve chunks unchecked", chunks_unchecked, 3),
    bug("give out producer ids again after a restore", producer_ids_reused, 7),
)
