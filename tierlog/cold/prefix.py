"""The cold side of one partition, as its readers see it.

`[log_start, uploaded_end)` is in the bucket because the last known HEAD says so: the one that this
node published or read back, or the local copy of it after a restart. It never goes back.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tierlog.cold import lookup
from tierlog.cold.entry import Entry
from tierlog.cold.errors import ColdError
from tierlog.cold.head import Head, Hold, PageRef
from tierlog.cold.layout import PartitionKeys
from tierlog.cold.page import Page
from tierlog.cold.pagecache import PageCache
from tierlog.hot.epochs import LeaderEpochs
from tierlog.hot.log import FIRST_OFFSET
from tierlog.hot.watchers import Watcher, Watchers
from tierlog.objectstore.errors import StoreError
from tierlog.types import Offset, TimestampMs

if TYPE_CHECKING:
    from tierlog.errors import TierlogError

logger = logging.getLogger(__name__)


class ColdPrefix:
    def __init__(self, keys: PartitionKeys, pages: PageCache, *, head: Head | None = None) -> None:
        self.keys = keys
        self.head = head
        """Last known; None before the first publish."""
        self.is_unknown = False
        """Whether there may be a HEAD that nobody here knows: the local copy is lost, and the store
        has not answered yet. What lies before the local log can be neither served nor denied."""
        self.fence: TierlogError | None = None
        """Why this process publishes the partition no more, and must take no more records for it:
        a newer leader does, or a copy of this node, or another life of the cluster; or the log is
        not the one that the bucket goes on from."""
        self.epochs = LeaderEpochs(() if head is None else head.leader_epochs)
        """Of what is cold."""
        self.holding: dict[str, Hold] = {}
        """Holds on their way into HEAD, by id; also those of which nobody knows whether they got
        there."""
        self.refresh: Callable[[], Awaitable[Head | None]] | None = None
        """Reads HEAD back from the store."""
        self._pages = pages
        self._watchers = Watchers()

    @property
    def uploaded_end(self) -> Offset:
        """Everything from `log_start` to here is cold. The first offset while nothing is."""
        return FIRST_OFFSET if self.head is None else self.head.next_offset

    @property
    def log_start(self) -> Offset:
        return FIRST_OFFSET if self.head is None else self.head.log_start

    @property
    def holds(self) -> tuple[Hold, ...]:
        """What they cover is not deleted: those in HEAD, and those on their way there."""
        known = () if self.head is None else self.head.holds
        return (*known, *self.holding.values()) if self.holding else known

    def covers(self, offset: Offset) -> bool:
        """Whether the bucket answers for `offset`, be it with the records behind it."""
        head = self.head
        return head is not None and head.log_start <= offset < head.next_offset

    def full_key(self, key: str) -> str:
        """Of a key as entries have it, relative to the partition."""
        return self.keys.full(key)

    async def entry_for(self, offset: Offset) -> Entry | None:
        """The segment that holds `offset`, or the first behind it; None at the end.

        Pages are fetched where HEAD does not know: two at most.
        """
        return await self._found(lambda head, opened: lookup.find(head, offset, opened))

    async def entry_by_time(self, timestamp: TimestampMs, *, start: Offset) -> Entry | None:
        """The first segment that ends behind `start` and has a record at `timestamp` or later."""
        return await self._found(
            lambda head, opened: lookup.find_by_time(head, timestamp, opened, start=start)
        )

    async def entry_latest(self, *, start: Offset) -> Entry | None:
        """The segment with the largest timestamp of those that end behind `start`; the first of
        several."""
        return await self._found(lambda head, opened: lookup.find_latest(head, opened, start=start))

    async def _found(
        self, look: Callable[[Head, dict[str, Page]], Entry | PageRef | None]
    ) -> Entry | None:
        """Open the pages that a lookup asks for, until it knows."""
        head = self.head
        if head is None:
            return None
        opened: dict[str, Page] = {}
        while isinstance(found := look(head, opened), PageRef):
            opened[found.key] = await self.page(found)
        return found

    async def page(self, ref: PageRef) -> Page:
        """The page of its manifest that `ref` speaks of. What the store raises passes."""
        return await self._pages.get(self.keys, ref)

    def known_page(self, ref: PageRef) -> Page | None:
        """The same, if it is in memory."""
        return self._pages.known(self.keys.full(ref.key))

    # Changing

    async def renew(self) -> None:
        """Ask the store for a newer HEAD. Without one, or without an answer, nothing changes."""
        if self.refresh is None:
            return
        try:
            head = await self.refresh()
        except (ColdError, StoreError) as fault:
            logger.info("%s is not read again: %s", self.keys.head, fault)
            return
        if head is not None:
            self.adopt(head)

    def close_to_writers(self, fence: "TierlogError", *, of: str) -> None:
        """What this process accepted from now on could never be published."""
        if self.fence is None:
            logger.error("%s is read-only from now on: %s", of, fence)
        self.fence = fence

    def adopt(self, head: Head) -> None:
        """A HEAD that was published or read back. An older one than is known changes nothing."""
        self.is_unknown = False
        if self.head is not None and head.version <= self.head.version:
            return
        self.head = head
        self.epochs = LeaderEpochs(head.leader_epochs)
        self._watchers.notify()

    def watch(self, callback: Watcher) -> None:
        """Call back on the loop whenever another HEAD is known."""
        self._watchers.add(callback)

    def unwatch(self, callback: Watcher) -> None:
        self._watchers.remove(callback)
