"""Drops local segments that are cold, by rule U6 and not a byte sooner.

A segment goes only if a HEAD that this node has just read back lists it, the objects that hold it
answer with the right size and checksum, and the topic's local retention allows it. Until then a
store that lies or loses can be repaired from here. Dropping moves the hot log's start: its files go
with the next sync job, and a restart resumes it.

What another process published, or an earlier one of this node, is compared with the local bytes
before they go: a copied data directory makes two nodes that write other records under the same
offsets. Local bytes that are damaged tell nothing: they go once every byte of the object was read
and is as it was published. And behind a fence nothing is dropped that was not known before it.
"""

import logging
from bisect import bisect_left
from math import inf
from typing import NamedTuple

from tierlog.cold import comparing, sending, sources
from tierlog.cold.audit import Subject
from tierlog.cold.audit_object import ObjectAudit
from tierlog.cold.choosing import check_lineage
from tierlog.cold.entry import Entry
from tierlog.cold.head import Head
from tierlog.cold.tiersettings import TopicTiering
from tierlog.cold.tierstats import TierStats
from tierlog.cold.troubles import LocalDamaged, ObjectLost, ObjectWrong
from tierlog.cold.uploader import PartitionUploader
from tierlog.env import Env
from tierlog.hot import SealedSegment
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import ObjectStore
from tierlog.types import Offset

logger = logging.getLogger(__name__)

DROPS_A_TURN_MAX = 32
"""Segments; each costs a request, and a reading after a restart, while others wait for the slot."""


class _Published(NamedTuple):
    """Everything below `next_offset` was published at this time, or before."""

    next_offset: Offset
    ms: int


class PartitionDropper:
    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        uploader: PartitionUploader,
        *,
        tiering: TopicTiering,
        stats: TierStats,
    ) -> None:
        self.tiering = tiering
        self._env = env
        self._store = store
        self._uploader = uploader
        self._log = uploader.log
        self._prefix = uploader.prefix
        self._stats = stats
        self._published: list[_Published] = []
        """Neither column falls; the last covers everything that is cold."""
        self._note()

    def _note(self) -> None:
        """Another HEAD may be known: published just now, or found by a restart."""
        head, noted = self._prefix.head, self._published
        if head is not None and (not noted or head.next_offset > noted[-1].next_offset):
            noted.append(_Published(head.next_offset, head.published_ms))

    def _not_from_the_future(self, now_ms: int) -> None:
        """The clock was ahead and is right now: what it dated then counts from here on."""
        noted = self._published
        for place in range(len(noted) - 1, -1, -1):
            if noted[place].ms <= now_ms:
                break
            noted[place] = noted[place]._replace(ms=now_ms)

    def due(self, now_ms: int) -> list[SealedSegment]:
        """Cold segments that local retention lets go, oldest first."""
        self._note()
        self._not_from_the_future(now_ms)
        log, found = self._log, list[SealedSegment]()
        bytes_max, window_ms = self.tiering.local_retention_bytes, self.tiering.local_retention_ms
        excess = log.size_bytes - bytes_max if bytes_max >= 0 else -1
        end = self._end()
        for segment in log.sealed():
            if segment.next_offset > end or len(found) == DROPS_A_TURN_MAX:
                break
            if segment.next_offset <= log.log_start:
                continue  # Dropped already; its files go with the next sync.
            is_old = 0 <= window_ms <= self._age_ms(segment, now_ms)
            if not is_old and excess < segment.size:
                break
            excess -= segment.size
            found.append(segment)
        return found

    def _end(self) -> Offset:
        """Where the records end that are cold and surely this log's."""
        end, fenced = self._prefix.uploaded_end, self._uploader.publisher.end_at_fence
        return end if fenced is None else min(end, fenced)

    def due_from_ms(self) -> float:
        """When time alone lets the next segment go; what changes otherwise is not foreseen."""
        window_ms, start = self.tiering.local_retention_ms, self._log.log_start
        first = next((one for one in self._log.sealed() if one.next_offset > start), None)
        if window_ms < 0 or first is None:
            return inf
        published_ms = self.published_ms(first)
        return inf if published_ms is None else published_ms + window_ms

    def _age_ms(self, segment: SealedSegment, now_ms: int) -> int:
        """Since its publish. -1: unknown."""
        published_ms = self.published_ms(segment)
        return -1 if published_ms is None else now_ms - published_ms

    def published_ms(self, segment: SealedSegment) -> int | None:
        """When it was in a HEAD at the latest, as far as is known; None: it is not cold."""
        place = bisect_left(self._published, segment.next_offset, key=lambda one: one.next_offset)
        return self._published[place].ms if place < len(self._published) else None

    async def drop(self) -> None:
        """Let go what is due. Raises where the bucket does not answer for it: nothing goes then."""
        segments = self.due(self._env.clock.now_ms())
        if not segments:
            return
        head = await self._read_back()
        for segment in segments:
            if segment.next_offset > min(head.next_offset, self._end()):
                return
            await self._require_cold(segment, head)
            if segment.next_offset > self._log.log_start:
                self._log.drop(segment.next_offset)
                self._stats.dropped_bytes += segment.size
                self._stats.dropped_segments += 1
        self._forget_noted()

    async def _read_back(self) -> Head:
        publisher = self._uploader.publisher

        async def refreshed() -> Head:
            head = await publisher.refresh()
            assert head is not None, "what is known is there, or lost"
            return head

        head = await self._uploader.mended(refreshed)
        self._prefix.adopt(head)
        return head

    async def _require_cold(self, segment: SealedSegment, head: Head) -> None:
        """Ask the store for every object that holds the segment's offsets."""
        check_lineage(self._log, head, end=segment.next_offset)
        offset = max(segment.base_offset, head.log_start)
        while offset < segment.next_offset:
            entry = await self._prefix.entry_for(offset)
            if entry is None:
                raise ObjectWrong(
                    self._prefix.keys.head,
                    wanted=f"offset {offset}",
                    found="no segment with it",
                    of=self._uploader.name,
                )
            await self._require_own(entry, segment)
            await self._require_there(entry, head)
            offset = entry.next_offset

    async def _require_there(self, entry: Entry, head: Head) -> None:
        """The store answers for the object; if not, it is put back from here, which is what the
        local retention is for. Raises `ObjectLost` where that cannot be done."""
        key = self._prefix.full_key(entry.key)
        try:
            name = self._uploader.name
            await sending.verify(self._store, key, entry, self._env.tasks, of=name)
        except ObjectWrong as fault:
            self._stats.lost_objects += 1
            raise ObjectLost(key, found=str(fault), reason="there is another object") from fault
        except NoSuchObject as fault:
            self._stats.lost_objects += 1
            reason = await self._uploader.put_back(entry, head)
            if reason is not None:
                raise ObjectLost(key, found=str(fault), reason=reason) from fault
            self._stats.put_back_objects += 1
            logger.error("%s was lost by the store; it is put back from the local copy", key)  # noqa: TRY400  it is told

    async def _require_own(self, entry: Entry, segment: SealedSegment) -> None:
        """The object has the bytes that the log has. One that was merged is wider than a local
        segment: it says itself as what it was uploaded, and that is compared."""
        uploader = self._uploader
        if uploader.is_vouched(entry):
            return
        place, keys = uploader.publisher.place, uploader.publisher.keys
        for source in await sources.read(self._store, keys, entry):
            is_here = source.base < segment.next_offset and segment.base_offset < source.next_offset
            if is_here and not uploader.is_vouched(source):
                try:
                    await comparing.require_same(self._env, self._log, place, source)
                except LocalDamaged as fault:
                    await self._require_sound(entry, fault)
                uploader.vouch(source)

    async def _require_sound(self, entry: Entry, fault: LocalDamaged) -> None:
        """Where the local bytes are not what anybody wrote, the bucket's are the better copy, if
        each of them is as it was published."""
        place, key = self._uploader.publisher.place, self._prefix.full_key(entry.key)
        subject = Subject(place.topic, place.topic_id, place.partition)
        found = await ObjectAudit(self._store, key, entry, subject, self._env.tasks).run()
        if found is not None:
            raise ObjectWrong(key, wanted=found.expected, found=found.found, of=self._uploader.name)
        logger.error("%s; the bucket has these records, and the local ones may go", fault)

    def _forget_noted(self) -> None:
        start = self._log.log_start
        while len(self._published) > 1 and self._published[0].next_offset <= start:
            self._published.pop(0)
