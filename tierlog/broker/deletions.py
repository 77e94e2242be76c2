"""Removes the logs of topics that are deleted, while nobody waits.

Whoever deletes a topic hears of it as soon as nobody finds it; thousands of logs take seconds more.
A note in the metastore (`/deleted/{id}`) stays until none is left: what a stop or a crash cuts off
is finished by the next start. Directories carry the id of their topic, so one that is made again
under the same name meanwhile is not touched. The bucket is told as well, when it can be: until then
the note stays, and nobody waits for that.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from tierlog.hot.errors import DiskFull, TooManyFiles
from tierlog.metastore import Delete, MetaStoreError, values
from tierlog.metastore.values import DeletedState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tierlog.broker.tiering import Tiering
    from tierlog.broker.topics import Topic
    from tierlog.hot import LogDirectory
    from tierlog.metastore import MetaStore

logger = logging.getLogger(__name__)

DELETING_MAX = 8
"""Logs deleted side by side: they share the syncs of their directory, and leave threads to the sync
jobs of those that stay."""

GROUP = 256
"""Begun in one turn of the loop."""

RETRY_S = 1.0
"""Between two tries of what a full disk, or too many open files, does not allow now."""


class Deletions:
    def __init__(
        self,
        metastore: MetaStore,
        directory: LogDirectory,
        *,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self._metastore = metastore
        self._directory = directory
        self._on_fault = on_fault
        self.tiering: Tiering | None = None
        self._running: dict[asyncio.Task[None], Topic] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(DELETING_MAX)

    async def finish_earlier(self) -> None:
        """What an earlier life left behind goes before anybody is served. Full disks are told."""
        deleted, _ = await self._metastore.list(values.DELETED)
        present = set(self._directory.names()) if deleted else set()
        for entry in deleted:
            known = DeletedState.from_bytes(entry.value)
            topic_id = bytes.fromhex(entry.key.removeprefix(values.DELETED))
            names = (values.log_name(topic_id, index) for index in range(known.partitions))
            await self._each(
                [partial(self._directory.delete_closed, name) for name in names if name in present]
            )
            await self._tell(topic_id, known)

    async def _tell(self, topic_id: bytes, known: DeletedState) -> None:
        """The logs are gone: what is left is to tell the bucket, in its own time, and to remove the
        note."""
        work = self._tell_bucket(topic_id, known)
        if self.tiering is None:
            await work
            return
        task = self._directory.env.tasks.spawn(work, name=f"tell of {known.name}")
        self._telling.add(task)
        task.add_done_callback(self._told)

    async def _tell_bucket(self, topic_id: bytes, known: DeletedState) -> None:
        if self.tiering is not None:
            await self.tiering.delete(topic_id, known.partitions, name=known.name)
        try:
            await self._metastore.txn([], [Delete(values.deleted_key(topic_id))])
        except MetaStoreError as error:
            logger.warning("the note that %s is deleted stays for now: %s", known.name, error)

    def _told(self, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._on_fault(fault)

    def begin(self, topic: Topic) -> None:
        """Nobody finds the topic any more: its logs go."""
        task = self._directory.env.tasks.spawn(self._delete(topic), name=f"delete {topic.name}")
        self._running[task] = topic
        task.add_done_callback(self._ended)

    async def _delete(self, topic: Topic) -> None:
        if self.tiering is not None:
            await self.tiering.detach(topic.id, len(topic.partitions))
        await self._abandon(topic)
        await self._each(
            [
                partial(self._surely, partial(self._directory.delete_log, one.log))
                for one in topic.opened
            ]
        )
        await self._delete_late(topic)
        known = DeletedState(name=topic.name, partitions=len(topic.partitions))
        await self._tell(topic.id, known)

    async def _delete_late(self, topic: Topic) -> None:
        """What an opening that did not come to its end left."""
        names = [values.log_name(topic.id, one.index) for one in topic.partitions if one.late]
        present = set(self._directory.names()) if names else set()
        await self._each(
            [
                partial(self._surely, partial(self._directory.delete_closed, name))
                for name in names
                if name in present
            ]
        )

    async def _abandon(self, topic: Topic) -> None:
        """Whoever waits at one of its logs hears at once that it is gone."""
        opened = topic.opened
        for first in range(0, len(opened), GROUP):
            some = opened[first : first + GROUP]
            await asyncio.gather(*(one.log.abandon() for one in some))

    async def _each(self, works: Sequence[Callable[[], Awaitable[None]]]) -> None:
        for first in range(0, len(works), GROUP):
            some = works[first : first + GROUP]
            # All come to their end before one is complained about.
            done = await asyncio.gather(*map(self._in_turn, some), return_exceptions=True)
            for fault in done:
                if fault is not None:
                    raise fault

    async def _in_turn(self, work: Callable[[], Awaitable[None]]) -> None:
        async with self._turn:
            await work()

    async def _surely(self, work: Callable[[], Awaitable[None]]) -> None:
        """The metastore has decided: as often as it takes."""
        while True:
            try:
                return await work()
            except (DiskFull, TooManyFiles) as error:
                logger.error("the deletion of a topic waits: %s", error)  # noqa: TRY400  it is told
            await asyncio.sleep(RETRY_S)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            del self._running[task]
            if (fault := task.exception()) is not None:
                self._on_fault(fault)

    async def done(self) -> None:
        """Returns once everything that was begun is at its end."""
        while self._running:
            await asyncio.wait(self._running)

    async def close(self) -> None:
        """Leave the rest to the next start; nothing is under way any more when this returns."""
        telling, self._telling = self._telling, set()
        for task in telling:
            task.cancel()
        await asyncio.gather(*telling, return_exceptions=True)
        cut_off, self._running = self._running, {}
        for task in cut_off:
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*cut_off, return_exceptions=True)
        for topic in cut_off.values():
            await self._abandon(topic)
