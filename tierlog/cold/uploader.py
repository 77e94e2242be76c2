"""Uploads one partition: sealed segments in order, each sent, asked for, and published.

`sealed -> uploaded -> published`: an object is sent under a key of its own, the store is asked what
it has of it, then HEAD is replaced. Only that makes the bytes cold. Objects that were sent and
could not be published are kept in mind, so that an outage in between costs no second upload; what a
crash leaves is an orphan.

One call at a time; `upload` and `drop` may follow each other at will. Both end with an error that
says why nothing moved, and can simply be called again.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from tierlog.cold import sending, tree
from tierlog.cold.cell import pause
from tierlog.cold.changes import Append, MoveLogStart
from tierlog.cold.choosing import Upcoming, backlog, check_agrees, lineage_of, upcoming
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head
from tierlog.cold.layout import segment_key
from tierlog.cold.prefix import ColdPrefix
from tierlog.cold.publisher import Draft, Publisher
from tierlog.cold.refusals import HeadLost, NotNext, name_of
from tierlog.cold.staging import Label, Staged, stage
from tierlog.cold.tiersettings import TierSettings
from tierlog.cold.tierstats import PartitionStatus, TierStats
from tierlog.env import Env
from tierlog.hot import Log
from tierlog.objectstore.errors import StoreError, StoreUnavailable
from tierlog.objectstore.port import ObjectStore
from tierlog.types import Offset

logger = logging.getLogger(__name__)

SENDS_MAX = 3
"""Attempts to send one object, each under a new key, before the store counts as away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An object that the store answers for and no HEAD lists yet."""

    entry: Entry
    torn_from: Offset


class Publishing:
    """The change that a publish is: new segments, what is passed over before them, and the start
    that DeleteRecords gave the partition meanwhile."""

    def __init__(self, append: Append, first: Sent, *, log_start: Offset, now_ms: int) -> None:
        self._append = append
        self._first = first
        self._log_start = log_start
        self._now_ms = now_ms

    async def __call__(self, head: Head) -> Draft | None:
        end = head.next_offset
        if self._first.torn_from == end < self._first.entry.base:
            head = tree.skip(head, self._first.entry.base, now_ms=self._now_ms)
        draft = await self._append(head)
        if draft is None or not end < self._log_start > draft.head.log_start:
            return draft
        return replace(draft, head=replace(draft.head, log_start=self._log_start))


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
        self._sent: list[Sent] = []

    @property
    def name(self) -> str:
        """As people call it: orders-0."""
        return name_of(self.publisher.place)

    # What is there to do

    def has_work(self) -> bool:
        """Whether something is sealed that is not cold, as far as this node knows."""
        if self.is_stopped:
            return bool(self._sent)
        end = self.prefix.uploaded_end
        return any(one.next_offset > end for one in self.log.sealed())

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
        """Upload and publish everything that is sealed now or while it runs."""
        head = await self._claimed()
        while True:
            following = self._following(head)
            if self._sent and (following is None or self._is_publish_due(following)):
                head = await self._publish()
            elif following is None:
                return
            else:
                await self._send_or_publish(following, head)

    async def _claimed(self) -> Head:
        head = await self.mended(self.publisher.claim)
        check_agrees(self.log, head)
        self.prefix.adopt(head)
        return await self._move_start(head, head.next_offset)

    async def _move_start(self, head: Head, end: Offset) -> Head:
        """DeleteRecords beyond what was cold had only the local log to tell: tell HEAD, before it
        grows past that. `end`: where the bucket ended before; drops never move the local start
        beyond it, so a start that lies there is the partition's own."""
        start = self.log.log_start
        if start > max(end, head.log_start):
            head = await self.publisher.commit(MoveLogStart(start))
            self.prefix.adopt(head)
        return head

    def _following(self, head: Head) -> Upcoming | None:
        if self.is_stopped:
            return None
        end = self._sent[-1].entry.next_offset if self._sent else head.next_offset
        return upcoming(self.log, end, of=self.name)

    def _is_publish_due(self, following: Upcoming) -> bool:
        is_adjacent = following.base == self._sent[-1].entry.next_offset
        return not is_adjacent or len(self._sent) >= self._settings.commit_segments_max

    async def _send_or_publish(self, following: Upcoming, head: Head) -> None:
        """What was sent is published, whatever is wrong with the segment behind it."""
        try:
            sent = await self._send(following, head)
        except StoreError:
            raise
        except Exception:
            if self._sent:
                await self._publish()
            raise
        if sent is not None:
            self._sent.append(sent)

    async def _send(self, following: Upcoming, head: Head) -> Sent | None:
        """None: the segment was trimmed meanwhile."""
        try:
            staged = await self._stage(following, head)
        except FileNotFoundError:
            if following.segment in self.log.sealed():
                raise
            return None
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

    async def _send_once(self, staged: Staged) -> Entry:
        entry = replace(staged.entry, key=self._new_key(staged.entry.base, staged.entry.last))
        key = self.publisher.keys.full(entry.key)
        await sending.send(self._store, key, staged)
        stat = await sending.landed(self._store, key, entry, self._env.tasks, of=self.name)
        return replace(entry, version_id=stat.version_id)

    async def _stage(self, following: Upcoming, head: Head) -> Staged:
        segment, place = following.segment, self.publisher.place
        producers = await self.log.producers_at(segment.next_offset)
        now_ms = self._env.clock.now_ms()
        return await self._env.tasks.in_thread(
            partial(
                stage,
                self._env.disk,
                following,
                Label(topic=place.topic, topic_id=place.topic_id, partition=place.partition),
                key=self._new_key(following.base, following.last),
                producers=producers,
                lineage=lineage_of(self.log, head, following.base),
                max_append_ms=segment.last_append_ms if segment.last_append_ms >= 0 else now_ms,
                single_bytes_max=self._settings.single_put_bytes_max,
                part_bytes=self._settings.part_bytes,
            )
        )

    def _new_key(self, base: Offset, last: Offset) -> str:
        return segment_key(
            base=base,
            last=last,
            leader_epoch=self.publisher.writer.leader_epoch,
            node=self._node_id,
            attempt=int.from_bytes(self._env.rng.randbytes(8)),
        )

    # Publishing

    async def _publish(self) -> Head:
        sent, end = self._sent, self.prefix.uploaded_end
        append = Append(
            [one.entry for one in sent],
            store=self._store,
            keys=self.publisher.keys,
            env=self._env,
            log_start=self.log.log_start,
        )
        now_ms = self._env.clock.now_ms()
        change = Publishing(append, sent[0], log_start=self.log.log_start, now_ms=now_ms)
        try:
            head = await self.mended(lambda: self.publisher.commit(change))
        except NotNext:
            # Another attempt, or another leader, was faster: what was sent here is an orphan.
            logger.info("%s: %d uploaded objects are not needed", self.name, len(sent))
            head = await self.publisher.claim()
        else:
            self._stats.publish_count += 1
        self._sent = []
        head = await self._move_start(head, end)  # Deleted while the commit was on its way.
        self.prefix.adopt(head)
        return head

    async def mended(self, call: Callable[[], Awaitable[Head]]) -> Head:
        """What `call` answers. Where the store lost HEAD, it is put back from the local copy."""
        try:
            return await call()
        except HeadLost as lost:
            logger.error("%s; it is put back from the local copy", lost)  # noqa: TRY400
            await self.publisher.repair()
            return await call()
