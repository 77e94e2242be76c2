"""What must happen without anybody asking: rolls, flushes, retention, a look at the disk.

A few hundred partitions at a time, then the loop has its turn: ten thousand of them must not be
felt by anybody who waits for an answer. Retention goes on when the disk is full: it is what makes
room.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tierlog.broker.filling import Filling
from tierlog.hot.errors import DiskFull, LogClosed, LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierlog.broker.catalogue import Catalogue
    from tierlog.broker.partition import Partition
    from tierlog.broker.space import Space
    from tierlog.config import NodeSettings
    from tierlog.env import Env

logger = logging.getLogger(__name__)

TICK_S = 0.5
"""How often the disk is looked at, and how late a roll or a flush by time may be."""

PARTITIONS_A_TURN = 200


class Upkeep:
    def __init__(
        self,
        env: Env,
        catalogue: Catalogue,
        space: Space,
        settings: NodeSettings,
    ) -> None:
        self._env = env
        self._catalogue = catalogue
        self._space = space
        self._settings = settings
        self.filling = Filling()

    async def run(self) -> None:
        """For ever."""
        clock = self._env.clock
        next_retention = clock.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            self._space.look()
            self._note_filling()
            await self._each(self._age)
            if clock.monotonic() >= next_retention:
                await self._each(self._expire)
                interval_s = self._settings.log_retention_check_interval_ms / 1000
                next_retention = clock.monotonic() + interval_s

    def _note_filling(self) -> None:
        now_s = self._env.clock.monotonic()
        if self.filling.is_due(now_s):
            self.filling.note(
                now_s,
                free_bytes=self._space.free_bytes,
                produced_bytes=self._catalogue.topics.produced_bytes(),
            )

    async def _each(self, work: Callable[[Partition], None]) -> None:
        for number, partition in enumerate(self._partitions()):
            try:
                work(partition)
            except LogClosed:
                pass  # Its topic is being deleted.
            except DiskFull:
                pass  # `Space` says so, once.
            except LogError as error:
                logger.warning("%s-%d: %s", partition.topic.name, partition.index, error)
            if number % PARTITIONS_A_TURN == PARTITIONS_A_TURN - 1:
                await asyncio.sleep(0)

    def _partitions(self) -> Iterator[Partition]:
        for topic in self._catalogue.topics:
            yield from topic.opened

    def _age(self, partition: Partition) -> None:
        log, now_ms = partition.log, self._env.clock.now_ms()
        if log.roll_due(now_ms):
            log.roll()
        log.flush_if_due(now_ms)

    def _expire(self, partition: Partition) -> None:
        """Retention on the local log. A tiered topic keeps what is not in the bucket yet, unless
        nothing goes there any more."""
        config = partition.topic.config
        if "delete" not in config.cleanup_policy:
            return
        if config.remote_storage_enable and not _is_all_local(partition):
            return
        log = partition.log
        start = log.expired_end(
            now_ms=self._env.clock.now_ms(),
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
        )
        if start > log.log_start:
            logger.info(
                "%s-%d: retention moves the log start from %d to %d",
                partition.topic.name,
                partition.index,
                log.log_start,
                start,
            )
            log.trim_expired(start)


def _is_all_local(partition: Partition) -> bool:
    """Whether the log is all that a tiered partition has, and will be: its topic copies nothing,
    and what was copied has expired. Until then the oldest records are in the bucket, and go first.
    Should copies begin again, they pass over what was trimmed (U10)."""
    cold = partition.cold
    if cold is None or cold.is_unknown or not partition.topic.config.remote_log_copy_disable:
        return False
    return cold.log_start >= cold.uploaded_end and not cold.holds
