"""Deliberate faults in the cold tier, to prove that its simulation can find them.

The same game as in `bugs.py`, with a bucket: each is what a tired engineer might write. Several of
them undo two lines of defence at once, where one alone is covered by the other; they say so.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.crashpoints.expiry_bugs import (
    deletion_without_receipt,
    garbage_before_log_start,
    grace_forgotten,
    receipt_without_deletion,
)
from tests.planted.bugs import Bug
from tests.planted.merge_bugs import (
    expired_too_young,
    merged_over_the_next,
    merged_without_link,
    replaced_not_garbage,
)
from tests.simulation.cold import SCRUB, cold
from tierlog.broker.partition import Partition
from tierlog.cold import invariants, scrubber, sending
from tierlog.cold.audit import Kind
from tierlog.cold.audit_object import Fault, ObjectAudit
from tierlog.cold.cell import Cell, Seen, Wrong
from tierlog.cold.choosing import Upcoming
from tierlog.cold.clusterstate import DeletedTopic
from tierlog.cold.dropper import PartitionDropper
from tierlog.cold.head import Head
from tierlog.cold.layout import segment_key
from tierlog.cold.orphanfinder import OrphanFinder
from tierlog.cold.publisher import Publisher
from tierlog.cold.refusals import FencedByNewer, SwapLost
from tierlog.cold.scrubrepair import SOUND, ScrubRepair
from tierlog.cold.sweeper import Sweeper
from tierlog.cold.uploader import PartitionUploader
from tierlog.fetchproxy.segmentindex import SegmentIndex
from tierlog.hot import Log
from tierlog.metastore import values
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed, Outcome, Stat
from tierlog.sim.world import simulate


def hunt_cold(seed: int) -> str | None:
    """What the oracle or the clients of a simulated cold tier complain about, if they do."""
    try:
        simulate(cold, seed=seed)
    except AssertionError as failure:
        return str(failure).splitlines()[0]
    return None


def hunt_flipped(seed: int) -> str | None:
    """The same where a bad store flips bits as often as it does anything else, and the scrubber
    reads more."""
    eager = replace(SCRUB, byte_period_ms=400)
    with (
        patch("tests.simulation.cold_faults.FLIPPED", 1.0),
        patch("tests.simulation.cold.SCRUB", eager),
    ):
        return hunt_cold(seed)


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
    look = Cell.look
    known: dict[int, Any] = {}

    async def remembered(self: Cell[Any]) -> Seen[Any] | Wrong | None:
        if known.get(id(self), (None, None))[0] is not self:
            known[id(self)] = self, await look(self)
        found: Seen[Any] | Wrong | None = known[id(self)][1]
        return found

    with patch.object(Cell, "look", remembered):
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


# Sweeping


@contextmanager
def in_flight_collected() -> Iterator[None]:
    """An object that no manifest knows is an orphan, and goes at once: neither a second sighting
    nor a look at what is in flight. (With the second sighting it takes an outage of the manifest
    alone: `test_orphanfinder` has that one.)"""
    with (
        patch.object(OrphanFinder, "_seen_again", _seen_at_once),
        patch.object(OrphanFinder, "_collect", _collect_at_once),
    ):
        yield


async def _seen_at_once(_: OrphanFinder, __: Any, orphans: Any) -> Any:
    return orphans


async def _collect_at_once(self: OrphanFinder, partition: Any, orphans: Any) -> None:
    """Nobody looks whether the partition is at work, nor at HEAD again."""
    keys = partition.uploader.publisher.keys
    await self._delete([Doomed(keys.full(one.key), one.version_id) for one in orphans])


@contextmanager
def living_topics_swept() -> Iterator[None]:
    """Whatever STATE lists is swept, as soon as there is something to sweep at all."""

    def everything(self: Sweeper) -> dict[str, DeletedTopic]:
        state = self._keeper.state
        if state is None or not state.deleted:
            return {}
        notes = {
            key: DeletedTopic(name=one.name, partitions=one.partitions, deleted_ms=0)
            for key, one in state.topics.items()
        }
        return {**state.deleted, **notes}

    async def believed(self: Sweeper, topic_id: str) -> DeletedTopic:
        return DeletedTopic(name=topic_id, partitions=1, deleted_ms=0)

    with (
        patch.object(Sweeper, "waiting", property(everything)),
        patch.object(Sweeper, "_note", believed),
    ):
        yield


def note_removed_first() -> AbstractContextManager[object]:
    """The note in STATE is taken for done when the sweep begins; a crash or a fault then leaves
    objects that nobody knows of."""
    sweep, note = Sweeper._sweep, Sweeper._note
    begun: dict[str, DeletedTopic] = {}

    async def hasty(self: Sweeper, topic_id: str) -> None:
        begun[topic_id] = await note(self, topic_id)
        await self._keeper.swept(topic_id)
        with patch.object(self, "_note", lambda _: _now(begun[topic_id])):
            await sweep(self, topic_id)

    return patch.object(Sweeper, "_sweep", hasty)


async def _now(value: DeletedTopic) -> DeletedTopic:
    return value


# Scrubbing


@contextmanager
def one_bad_answer_believed() -> Iterator[None]:
    """An object that was read wrong once is damaged, and is replaced by the local segment."""

    async def hasty(self: ObjectAudit) -> Fault | None:
        reason = await self._reason()
        return None if reason is None else Fault(Kind.OBJECT_WRONG, "other bytes", reason)

    async def unread(self: ScrubRepair, partition: Any, key: str, entry: Any) -> Any:
        return await self._store.head(key)

    with (
        patch.object(ObjectAudit, "run", hasty),
        patch.object(ScrubRepair, "_wrong", unread),
    ):
        yield


@contextmanager
def judged_by_etag() -> Iterator[None]:
    """Whatever has another ETag than the last one seen is replaced: ETags are content hashes."""
    seen: dict[str, str] = {}

    async def by_etag(self: ScrubRepair, partition: Any, key: str, entry: Any) -> Any:
        stat = await self._store.head(key)
        return stat if seen.setdefault(key, entry.sha256) != stat.etag else SOUND

    async def suspicious(store: Any, key: str, entry: Any) -> Fault | None:
        etag = (await store.head(key)).etag
        is_same = etag == entry.sha256
        return None if is_same else Fault(Kind.OBJECT_WRONG, entry.sha256, etag)

    with (
        patch.object(ScrubRepair, "_wrong", by_etag),
        patch.object(scrubber, "ask", suspicious),
    ):
        yield


TRIES = 30
"""A change anywhere in the broker shifts every schedule: the pinned seed is where to begin."""


def bug(name: str, plant: Callable[[], Any], seed: int) -> Bug:
    return Bug(name, plant, hunt_cold, seed, tries=TRIES)


COLD_BUGS = (
    bug("take a refused swap for a lost one", refused_taken_for_lost, 1),
    bug("repeat a refused swap on the new ETag", swap_repeated_on_the_new_etag, 4),
    bug("remember HEAD instead of reading it", head_read_once, 0),
    bug("claim without the process", claimed_without_process, 22),
    bug("acknowledge after the fence", acknowledged_after_the_fence, 3),
    bug("reuse the key of an upload", key_reused, 1),
    bug("publish an upload in doubt", doubtful_upload_published, 6),
    bug("let HEAD's log start follow the disk", start_follows_the_disk, 0),
    bug("serve beyond what is published", served_before_published, 0),
    bug("drop before the publish", dropped_before_published, 2),
    bug("serve chunks unchecked", chunks_unchecked, 9),
    bug("collect an upload in flight", in_flight_collected, 0),
    bug("sweep a topic that is not deleted", living_topics_swept, 1),
    bug("forget a deleted topic before it is swept", note_removed_first, 1),
    bug("give out producer ids again after a restore", producer_ids_reused, 11),
    bug("garbage before the log start moved", garbage_before_log_start, 2),
    bug("a receipt without the deletion", receipt_without_deletion, 2),
    bug("a deletion without a receipt", deletion_without_receipt, 2),
    bug("collected without asking again, grace or not", grace_forgotten, 2),
    bug("expire what is too young", expired_too_young, 2),
    bug("merge: lose the segment behind the run", merged_over_the_next, 11),
    bug("merge: go on with the chain as an upload does", merged_without_link, 2),
    bug("merge: what was replaced is no garbage", replaced_not_garbage, 5),
    Bug("scrub: believe one bad answer", one_bad_answer_believed, hunt_flipped, 1, tries=TRIES),
    bug("scrub: replace what has another ETag", judged_by_etag, 0),
)
