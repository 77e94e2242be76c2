"""Puts back what the store lost, from what this node still has: byte for byte, or not at all.

- An object that is gone is sent again from the local segment, under its own key, if the segment
  makes the very same object. One that is wrong is replaced under the condition that it is still the
  wrong one that was read. What answers right is never written to.
- A page that is gone is written again from memory, if that makes the very same bytes.
- A HEAD that is gone or rolled back is put back from the local copy, by the publisher's own rules.

- Only what the partition's HEAD lists just before: what a successor let go stays gone.

Whatever is repaired was told first: a store that loses something is not to be trusted silently.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING

from tierlog.cold import codec
from tierlog.cold.audit import Kind, Subject
from tierlog.cold.audit_object import Fault, ObjectAudit
from tierlog.cold.cell import write_once
from tierlog.cold.errors import SegmentUnsound
from tierlog.cold.refusals import HeadLost, SwapLost
from tierlog.cold.troubles import LogDiverged, ObjectWrong
from tierlog.hot.errors import LogError
from tierlog.objectstore.errors import NoSuchObject
from tierlog.objectstore.port import Stat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tierlog.cold.entry import Entry
    from tierlog.cold.head import Head, PageRef
    from tierlog.cold.pagecache import PageCache
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.cold.tierstats import TierStats
    from tierlog.cold.uploader import PartitionUploader
    from tierlog.env import Env
    from tierlog.objectstore.port import ObjectStore

logger = logging.getLogger(__name__)

SOUND = Stat(key="", size=0, etag="")
"""In place of an object that is wrong."""


class ScrubRepair:
    def __init__(self, env: Env, store: ObjectStore, pages: PageCache, stats: TierStats) -> None:
        self._env = env
        self._store = store
        self._pages = pages
        self._stats = stats

    async def head(
        self, uploader: PartitionUploader, refreshed: Callable[[], Awaitable[Head]]
    ) -> Head:
        """What the store has; put back where it lost it."""
        try:
            return await refreshed()
        except HeadLost:
            head = await uploader.mended(refreshed)
            self._stats.scrub_repairs += 1
            return head

    async def page(self, uploader: PartitionUploader, ref: PageRef) -> bool:
        """Of a page that is gone: whether it is back."""
        key = uploader.publisher.keys.full(ref.key)
        page = self._pages.known(key)
        if page is None:
            return False
        data = await self._env.tasks.in_thread(codec.encode_page, page)
        if sha256(data).hexdigest() != ref.sha256:
            return False
        await uploader.publisher.refresh()
        if uploader.publisher.fence is not None:
            return False  # A successor may have let go of it.
        try:
            await write_once(self._store, key, data, self._env.rng)
        except SwapLost:
            return False  # Somebody was faster: the next look tells what it is.
        self._repaired(key, "from memory")
        return True

    async def object(self, partition: TieredPartition, entry: Entry, fault: Fault) -> Fault | None:
        """What is still wrong with it."""
        key = partition.prefix.full_key(entry.key)
        if fault.kind not in (Kind.OBJECT_MISSING, Kind.OBJECT_WRONG):
            return fault
        try:
            reason = await self._put_back(partition, key, entry)
        except FileNotFoundError:
            reason = "the local segment is gone"
        except (SegmentUnsound, LogError, LogDiverged, ObjectWrong) as error:
            reason = str(error)
        if reason is not None:
            return fault._replace(found=f"{fault.found}; it cannot be put back: {reason}")
        return None

    async def _put_back(self, partition: TieredPartition, key: str, entry: Entry) -> str | None:
        """Why it is not back."""
        head = partition.prefix.head
        assert head is not None, "it lists the entry"
        wrong = await self._wrong(partition, key, entry)
        if wrong is SOUND:
            return None
        etag = None if wrong is None else wrong.etag
        reason = await partition.uploader.put_back(entry, head, instead_of=etag)
        if reason is not None:
            return reason
        if await self._wrong(partition, key, entry) is not SOUND:
            return "it was sent, and is not right yet"
        self._repaired(key, "from the local segment")
        return None

    async def _wrong(self, partition: TieredPartition, key: str, entry: Entry) -> Stat | None:
        """The object that stands there and is wrong, read to its end; None: there is none;
        `SOUND`: it is right."""
        try:
            stat = await self._store.head(key)
        except NoSuchObject:
            return None
        if stat.size != entry.size:
            return stat
        place = partition.place
        subject = Subject(place.topic, place.topic_id, place.partition)
        try:
            fault = await ObjectAudit(self._store, key, entry, subject, self._env.tasks).run()
        except NoSuchObject:
            return None
        return SOUND if fault is None else stat

    def _repaired(self, key: str, whence: str) -> None:
        self._stats.scrub_repairs += 1
        logger.error("%s was lost or damaged by the store; it is put back %s", key, whence)
