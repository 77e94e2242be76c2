"""Partitions that cannot be opened yet: their log is gone, and the store that knows where it ended
does not answer.

Offsets that are in the bucket are never given out again, so such a log is not begun by guess. The
node serves everything else; whoever asks for the partition hears `PartitionLate`, which clients
retry, and it opens as soon as the store answers, without a restart.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NoReturn

from tierlog.broker.errors import PartitionLate
from tierlog.cold.errors import ColdError
from tierlog.hot.errors import DiskFull, TooManyFiles
from tierlog.objectstore.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tierlog.broker.partition import Partition
    from tierlog.broker.topics import Topic
    from tierlog.env import Tasks

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""Between two looks whether the store answers by now."""

WAITED_FOR = (StoreError, ColdError, DiskFull, TooManyFiles)
"""What may be different at the next try."""


class AbsentLog:
    """Stands for the log of a partition that is late: whoever touches it hears so."""

    def __init__(self, why: PartitionLate) -> None:
        self._why = why

    def __getattr__(self, name: str) -> NoReturn:
        raise self._why


class LatePartitions:
    """Opens them, each when it can be."""

    def __init__(self, tasks: Tasks, *, on_fault: Callable[[BaseException], None]) -> None:
        self._tasks = tasks
        self._on_fault = on_fault
        self._opening: dict[Partition, asyncio.Task[None]] = {}

    def begin(self, partition: Partition, open_it: Callable[[], Awaitable[None]]) -> None:
        """`open_it` is called until it succeeds."""
        logger.error("%s; the node serves everything else", partition.late)
        name = f"{partition.topic.name}-{partition.index}"
        task = self._tasks.spawn(self._open(partition, open_it), name=f"late {name}")
        self._opening[partition] = task
        task.add_done_callback(lambda _: self._ended(partition, task))

    async def _open(self, partition: Partition, open_it: Callable[[], Awaitable[None]]) -> None:
        while partition.late is not None:
            await asyncio.sleep(RETRY_S)
            try:
                await open_it()
            except WAITED_FOR as error:
                late = PartitionLate(partition.topic.name, partition.index, str(error))
                if str(late) != str(partition.late):
                    logger.warning("%s", late)
                partition.late = late
        logger.info("%s-%d is open", partition.topic.name, partition.index)

    def _ended(self, partition: Partition, task: asyncio.Task[None]) -> None:
        self._opening.pop(partition, None)
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._on_fault(fault)

    async def forget(self, topic: Topic) -> None:
        """The topic is deleted: nothing of it is being opened any more when this returns."""
        await self._cancel([one for one in self._opening if one.topic is topic])

    async def close(self) -> None:
        await self._cancel(list(self._opening))

    async def _cancel(self, partitions: list[Partition]) -> None:
        tasks = [self._opening[one] for one in partitions]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
