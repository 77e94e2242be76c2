"""Uploads one partition: sealed segments in order, each sent, asked for, and published.

Also tells HEAD what was deleted: the log's `trimmed_to` is durable before anybody hears of it, and
every turn that finds HEAD behind it moves HEAD's start, whatever failed or died in between.

`sealed -> uploaded -> published`: an object is sent under a key of its own, the store is asked what
it has of it, then HEAD is replaced. Only that makes the bytes cold. Objects that were sent and
could not be published are kept in mind, so that an outage in between costs no second upload; what a
crash leaves is an orphan.

A segment is checked and hashed while the one before it is sent: the first is work for the
processor, the second for the network and the store.

One call at a time; `upload` and `drop` may follow each other at will. Both end with an error that
says why nothing moved, and can simply be called again.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from tierlog.cold import sending, soundness, tree
from tierlog.cold.cell import pause
from tierlog.cold.changes import Append, MoveLogStart
from tierlog.cold.choosing import (
    Upcoming,
    backlog,
    check_agrees,
    check_goes_on,
    lineage_of,
    published,
    upcoming,
)
from tierlog.cold.entry import Entry
from tierlog.cold.errors import SegmentUnsound
from tierlog.cold.head import Head
from tierlog.cold.holds import movable_to
from tierlog.cold.layout import segment_key
from tierlog.cold.prefix import ColdPrefix
from tierlog.cold.publisher import Draft, Publisher
from tierlog.cold.refusals import HeadLost, NotNext, name_of
from tierlog.cold.staging import Ahead, Label, Plan, Staged, stage
from tierlog.cold.tiersettings import TierSettings
from tierlog.cold.tierstats import PartitionStatus, TierStats
from tierlog.env import Env
from tierlog.hot import Log
from tierlog.objectstore.errors import StoreError, StoreUnavailable
from tierlog.objectstore.port import ObjectStore
from tierlog.types import Offset, Position

logger = logging.getLogger(__name__)

SENDS_MAX = 3
"""Attempts to send one object, each under a new key, before the store counts as away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An object that the store answers for and no HEAD lists yet."""

    entry: Entry
    torn_from: Offset


class Publishing:
    """The change that a publish is: new segments, and a torn write that is passed over before
    them."""

    def __init__(self, append: Append, first: Sent, *, now_ms: int) -> None:
        self._append = append
        self._first = first
        self._now_ms = now_ms

    async def __call__(self, head: Head) -> Draft | None:
        end = head.next_offset
        if self._first.torn_from == end < self._first.entry.base:
            head = tree.skip(head, self._first.entry.base, now_ms=self._now_ms)
        return await self._append(head)


class PartitionUploader:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        log: Log,
        publisher: Publisher,
        prefix: ColdPrefix,
        *,
        node_id: int,
        settings: TierSettings,
        stats: TierStats,
    ) -> None:
        self.log = log
        self.publisher = publisher
        self.prefix = prefix
        self.status = PartitionStatus()
        self.is_stopped = False
        """By the topic's settings: what was sent is still published, nothing more is sent."""
        self._env = env
        self._store = store
        self._node_id = node_id
        self._settings = settings
        self._stats = stats
        self.sending: Offset | None = None
        """Where the segment begins that is on its way to the store."""
        self._sent: list[Sent] = []
        self.merged_in_flight: frozenset[str] = frozenset()
        """Of merged objects: sent, and not listed yet."""
        self._ahead = Ahead()
        self._vouched: dict[str, Offset] = {}
        """Objects with this log's own bytes, published by this process or compared, and where they
        end. Only those that the log still has."""

    @property
    def name(self) -> str:
        """As people call it: orders-0."""
        return name_of(self.publisher.place)

    @property
    def in_flight(self) -> frozenset[str]:
        """Keys that were sent and may still be published. While the partition is at work there may
        be one more, which is on its way."""
        return frozenset(one.entry.key for one in self._sent) | self.merged_in_flight

    @property
    def sent_end(self) -> Offset | None:
        """Where the objects end that the store has and no HEAD lists yet."""
        return self._sent[-1].entry.next_offset if self._sent else None

    # What is there to do

    def has_work(self) -> bool:
        """Whether something is sealed that is not cold, or deleted and HEAD does not say so, as far
        as this node knows."""
        if self.is_start_untold:
            return True
        if self.is_stopped:
            return bool(self._sent)
        end = self.prefix.uploaded_end
        return any(one.next_offset > end for one in self.log.sealed())

    @property
    def is_start_untold(self) -> bool:
        """Whether records were deleted here that HEAD still lists, and may let go."""
        start, head = min(self.log.trimmed_to, self.prefix.uploaded_end), self.prefix.head
        return head is not None and start > head.log_start < movable_to(head, start)

    def look(self, now_ms: int) -> None:
        """Bring the status up to date. Where nothing is uploaded, nothing waits for it."""
        status, end = self.status, self.prefix.uploaded_end
        if self.is_stopped:
            status.backlog_bytes = status.backlog_segments = status.lag_ms = 0
            return
        status.backlog_bytes, status.backlog_segments = backlog(self.log, end)
        waiting = (one for one in self.log.segments if one.next_offset > max(end, one.base_offset))
        since_ms = next((one.first_append_ms for one in waiting if one.first_append_ms >= 0), -1)
        status.lag_ms = max(now_ms - since_ms, 0) if since_ms >= 0 else 0

    # Uploading

    async def upload(self) -> None:
        """One publish of what is sealed, `commit_segments_max` segments at most: whoever has more
        comes again, after the others."""
        head = await self.claimed()
        try:
            while (following := self._following(head)) is not None:
                if self._sent and self._is_publish_due(following):
                    break
                await self._send_or_publish(following, head)
        finally:
            self._ahead.drop()
        if self._sent:
            await self._publish()

    async def claimed(self) -> Head:
        """HEAD, which this process may publish, and which knows what was deleted here."""
        if not self.publisher.is_claimed:
            check_goes_on(self.log, await self._found())
        head = await self.mended(self.publisher.claim)
        check_agrees(self.log, head)
        self.prefix.adopt(head)
        return await self._tell_start(head)

    async def _found(self) -> Head | None:
        """HEAD before it is claimed."""
        try:
            return await self.publisher.refresh()
        except HeadLost:
            return self.publisher.head  # The claim puts it back.

    async def _tell_start(self, head: Head) -> Head:
        """What was deleted from the log is deleted in the bucket (U10)."""
        start = min(self.log.trimmed_to, head.next_offset)
        if start > head.log_start:
            change = MoveLogStart(start, now_ms=self._env.clock.now_ms())
            head = await self.publisher.commit(change)
            self.prefix.adopt(head)
        return head

    def _following(self, head: Head) -> Upcoming | None:
        if self.is_stopped:
            return None
        end = self._sent[-1].entry.next_offset if self._sent else head.next_offset
        deleted_to = max(self.log.trimmed_to, head.log_start)
        return upcoming(self.log, end, deleted_to=deleted_to, of=self.name)

    def _is_publish_due(self, following: Upcoming) -> bool:
        is_adjacent = following.base == self._sent[-1].entry.next_offset
        return not is_adjacent or len(self._sent) >= self._settings.commit_segments_max

    async def _send_or_publish(self, following: Upcoming, head: Head) -> None:
        """What was sent is published, whatever is wrong with the segment behind it."""
        self.sending = following.base
        try:
            sent = await self._send(following, head)
        except StoreError:
            raise
        except Exception:
            if self._sent:
                await self._publish()
            raise
        finally:
            self.sending = None
        if sent is not None:
            self._sent.append(sent)

    async def _send(self, following: Upcoming, head: Head) -> Sent | None:
        """None: the segment was trimmed meanwhile."""
        try:
            staged = await (self._ahead.take(following) or self._stage_new(following, head))
        except FileNotFoundError:
            if following.segment in self.log.sealed():
                raise
            return None
        except SegmentUnsound as fault:
            following = await self._past_damage(following, head, fault)
            staged = await self._stage_new(following, head)
        self._stage_ahead(following, head)
        for attempt in range(SENDS_MAX):
            try:
                entry = await self._send_once(staged)
            except StoreUnavailable:
                if attempt == SENDS_MAX - 1:
                    raise
                await pause(self._env.rng, attempt)
            else:
                break
        self._stats.uploaded_bytes += entry.size
        self._stats.uploaded_segments += 1
        return Sent(entry=entry, torn_from=following.torn_from)

    async def _past_damage(
        self, following: Upcoming, head: Head, fault: SegmentUnsound
    ) -> Upcoming:
        deleted_to = max(self.log.trimmed_to, head.log_start)
        rest = await soundness.rest_of(
            self._env, following, deleted_to=deleted_to, fault=fault, of=self.name
        )
        if self._sent:
            await self._publish()  # What follows is not adjacent: its commit is one of its own.
        return rest

    async def _send_once(self, staged: Staged) -> Entry:
        entry = replace(staged.entry, key=self._new_key(staged.entry.base, staged.entry.last))
        key = self.publisher.keys.full(entry.key)
        await sending.send(self._store, key, staged)
        stat = await sending.landed(self._store, key, entry, self._env.tasks, of=self.name)
        return replace(entry, version_id=stat.version_id)

    def _stage_ahead(self, sending: Upcoming, head: Head) -> None:
        """Begin with the segment behind the one that is about to be sent, if it goes along."""
        if self.is_stopped or len(self._sent) + 1 >= self._settings.commit_segments_max:
            return
        end = sending.segment.next_offset
        following = next((one for one in self.log.sealed() if one.base_offset == end), None)
        if following is not None:
            whole = Upcoming(following, end, Position(0), end)
            work = self._stage_new(whole, head)
            self._ahead.begin(whole, self._env.tasks.spawn(work, name=f"stage {self.name}"))

    async def _stage_new(self, following: Upcoming, head: Head) -> Staged:
        """Under a key of its own."""
        append_ms = following.segment.last_append_ms
        return await self._stage(
            following,
            head,
            key=self._new_key(following.base, following.last),
            max_append_ms=append_ms if append_ms >= 0 else self._env.clock.now_ms(),
        )

    async def _stage(
        self, following: Upcoming, head: Head, *, key: str, max_append_ms: int
    ) -> Staged:
        place = self.publisher.place
        producers = await self.log.producers_at(following.segment.next_offset)
        size = following.segment.size - following.position
        is_parted = size > self._settings.single_put_bytes_max
        plan = Plan(
            path=following.segment.path,
            position=following.position,
            end=following.segment.size,
            base=following.base,
            last=following.last,
            label=Label(topic=place.topic, topic_id=place.topic_id, partition=place.partition),
            key=key,
            producers=producers,
            lineage=lineage_of(self.log, head, following.base),
            max_append_ms=max_append_ms,
            part_bytes=self._settings.part_bytes if is_parted else 0,
            gaps=() if self.log.settings.contiguous else None,
        )
        return await stage(self._env, plan)

    def _new_key(self, base: Offset, last: Offset) -> str:
        return segment_key(
            base=base,
            last=last,
            leader_epoch=self.publisher.writer.leader_epoch,
            node=self._node_id,
            attempt=int.from_bytes(self._env.rng.randbytes(8)),
        )

    async def put_back(
        self, entry: Entry, head: Head, *, instead_of: str | None = None
    ) -> str | None:
        """Send a published object that the store lost once more, from the local segment. Returns
        why that is not possible; None once the store answers for it. `instead_of` is the ETag of
        the wrong object that stands there: no other is replaced.

        The manifest cannot name another object for the same offsets (`history`), so it must be the
        same key, and the very same bytes: then no reader can tell, whatever lands when.
        """
        if entry.version_id is not None:
            return "the manifest names a version of it, and the store would make another"
        following = published(self.log, entry)
        if following is None:
            return "no single local segment holds its records"
        staged = await self._stage(
            following, head, key=entry.key, max_append_ms=entry.max_append_ms
        )
        if staged.entry.sha256 != entry.sha256:
            return "the object that the local segment makes is another, byte for byte"
        if not await self._still_lists(entry):
            return "the partition is another leader's now, or its HEAD lists the object no more"
        key = self.publisher.keys.full(entry.key)
        if instead_of is None:
            await sending.send(self._store, key, staged)
        elif staged.parts:
            return "it is too large to be replaced by one request"
        else:
            await self._store.put_if_match(key, staged.body, etag=instead_of)
        await sending.landed(self._store, key, entry, self._env.tasks)
        return None

    async def _still_lists(self, entry: Entry) -> bool:
        """Ask HEAD once more, just before: a successor may have let go of the object meanwhile, and
        told so in a receipt. What lands all the same, from a process that stood still behind this
        line, is an orphan."""
        head = await self.publisher.refresh()
        if head is None or self.publisher.fence is not None:
            return False
        self.prefix.adopt(head)
        now = await self.prefix.entry_for(max(entry.base, head.log_start))
        return now is not None and now.key == entry.key

    # Publishing

    async def _publish(self) -> Head:
        sent = self._sent
        append = Append(
            [one.entry for one in sent],
            store=self._store,
            keys=self.publisher.keys,
            env=self._env,
            trimmed_to=self.log.trimmed_to,
            grace_ms=self._settings.garbage_grace_ms,
        )
        change = Publishing(append, sent[0], now_ms=self._env.clock.now_ms())
        try:
            head = await self.mended(lambda: self.publisher.commit(change))
        except NotNext:
            # Another attempt, or another leader, was faster: what was sent here is an orphan.
            logger.info("%s: %d uploaded objects are not needed", self.name, len(sent))
            head = await self.publisher.claim()
        else:
            self._stats.publish_count += 1
            self.vouch(*(one.entry for one in sent))
        self._sent = []
        self.prefix.adopt(head)
        return await self._tell_start(head)  # Deleted while the commit was on its way.

    def is_vouched(self, entry: Entry) -> bool:
        """Whether the object surely has the bytes that the log has under its offsets."""
        return entry.key in self._vouched

    def vouch(self, *entries: Entry) -> None:
        start = self.log.log_start
        self._vouched = {key: end for key, end in self._vouched.items() if end > start}
        self._vouched.update((one.key, one.next_offset) for one in entries)

    async def mended(self, call: Callable[[], Awaitable[Head]]) -> Head:
        """What `call` answers. Where the store lost HEAD, it is put back from the local copy."""
        try:
            return await call()
        except HeadLost as lost:
            logger.error("%s; it is put back from the local copy", lost)  # noqa: TRY400  it is told
            await self.publisher.repair()
            return await call()
