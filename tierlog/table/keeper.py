"""The tables of a node: a chore beside the uploads, one conversion at a time.

A partition that publishes awakens its converter, and each that is awake has its turn: one file. So
one partition with years to convert does not keep the fresh segments of others waiting, and the node
spends one processor at most, at a rate, when nobody else wants it. Whatever goes wrong with one
partition is told once and puts off that partition alone; only the store's absence ends the round.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from tierlog.cold.pace import Pace
from tierlog.cold.refusals import Fenced, ForeignIncarnation
from tierlog.cold.tieredpartition import STORE_AWAY
from tierlog.env import WorkerLost
from tierlog.errors import TierlogError
from tierlog.objectstore.errors import StoreLies
from tierlog.objectstore.limited import Meter
from tierlog.table.converter import PartitionConverter
from tierlog.table.orphans import Orphans
from tierlog.table.publisher import Place, TablePublisher
from tierlog.table.settings import TableSettings, TableStats
from tierlog.table.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.env import Env, Tasks
    from tierlog.objectstore.port import ObjectStore

    Key: TypeAlias = tuple[str, int]

logger = logging.getLogger(__name__)

BACKOFF_MS_MIN = 1_000
BACKOFF_MS_MAX = 600_000
"""Of one partition whose conversion fails."""


class TableKeeper:
    """Implements `NodeChore`."""

    name = "convert to tables"

    def __init__(
        self,
        env: Env,
        store: ObjectStore,
        partitions: Mapping[Key, TieredPartition],
        *,
        directory: str,
        node_id: int,
        settings: TableSettings,
        tasks: Tasks | None = None,
    ) -> None:
        """`partitions` is the tier's own; `tasks` has the worker process, the node's by default."""
        self.stats = TableStats()
        self.converters: dict[Key, PartitionConverter] = {}
        self.due_from_ms: float = 0
        self._env = env
        self._partitions = partitions
        self._node_id = node_id
        self._settings = settings
        self._workshop = Workshop(env, store, tasks or env.tasks, directory)
        self._paces: dict[Key, Pace] = {}
        self._meter = Meter(env.clock, settings.bytes_per_second)
        self._orphans = Orphans(env, store, settings, self.stats)
        self._is_clean = False
        self._followed_ms = -settings.follow_interval_ms
        self._awake: set[Key] = set()
        """Those who may have something to do: ten thousand partitions cost nothing while idle."""
        self._wakers: dict[Key, Callable[[], None]] = {}

    async def run(self) -> None:
        """A round: a turn for each partition that has something to do."""
        if not self._is_clean:
            await self._workshop.clear_leftovers()
            self._is_clean = True
        now_ms = self._env.clock.now_ms()
        if not 0 <= now_ms - self._followed_ms < self._settings.follow_interval_ms:
            self._followed_ms = now_ms
            self._follow()
            self._awaken(now_ms)
        is_more, has_worked = False, False
        for key in sorted(self._awake):
            converter = self.converters.get(key)
            if converter is None:
                self._awake.discard(key)
            elif not self._paces[key].is_paused:
                has_worked = True
                is_more |= await self._turn(key, converter)
        if has_worked:
            self._measure()
        now_ms = self._env.clock.now_ms()
        self.due_from_ms = now_ms if is_more else now_ms + self._settings.interval_ms

    def _awaken(self, now_ms: int) -> None:
        """Those for whom time alone brings something to do."""
        self._awake |= {key for key, one in self.converters.items() if one.due_ms <= now_ms}

    def _follow(self) -> None:
        """Partitions come, go, are fenced, and are switched on and off."""
        wanted = {
            key: one
            for key, one in self._partitions.items()
            if one.dropper.tiering.table and not one.is_fenced
        }
        for key in [one for one in self.converters if one not in wanted]:
            self._forget(key)
        for key, partition in wanted.items():
            known = self.converters.get(key)
            if known is None or known.prefix is not partition.prefix:
                if known is not None:
                    self._forget(key)
                partition.prefix.watch(self._wakers.setdefault(key, partial(self._awake.add, key)))
                self._awake.add(key)
                self.converters[key] = self._converter(partition)
                self._paces[key] = Pace(
                    self._env.clock, self._env.rng, ms_min=BACKOFF_MS_MIN, ms_max=BACKOFF_MS_MAX
                )

    def _forget(self, key: Key) -> None:
        converter = self.converters.pop(key)
        converter.prefix.unwatch(self._wakers.pop(key))
        del self._paces[key]
        self._awake.discard(key)

    def _converter(self, partition: TieredPartition) -> PartitionConverter:
        head_publisher, place = partition.uploader.publisher, partition.place
        publisher = TablePublisher(
            self._workshop.store,
            head_publisher.keys,
            self._env,
            place=Place(topic=place.topic, topic_id=place.topic_id, partition=place.partition),
            writer=head_publisher.writer,
            incarnation=head_publisher.incarnation,
        )
        return PartitionConverter(
            self._workshop,
            partition.prefix,
            publisher,
            node_id=self._node_id,
            settings=self._settings,
            stats=self.stats,
        )

    async def _turn(self, key: Key, converter: PartitionConverter) -> bool:
        """Whether another one may be worth while at once."""
        self._awake.discard(key)  # Before it begins: what is published meanwhile awakens it again.
        if converter.prefix.head is None:
            return False
        try:
            did = await self._worked(converter)
        except (StoreLies, ForeignIncarnation, *STORE_AWAY):
            self._awake.add(key)
            raise
        except (TierlogError, OSError, WorkerLost) as fault:
            self._awake.add(key)
            self._failed(key, converter, fault)
            return False
        except BaseException:
            self._awake.add(key)
            raise
        self._paces[key].succeeded()
        converter.last_error = None
        if did:
            self._awake.add(key)
        return did

    async def _worked(self, converter: PartitionConverter) -> bool:
        size = await converter.convert() if converter.has_work else 0
        if size:
            await asyncio.sleep(self._meter.owe(size))
        did = bool(size) or await converter.merge()
        did |= await converter.expire()
        did |= await converter.collect()
        did = did or await converter.mend()
        await self._orphans.look(converter)
        converter.due_ms = min(converter.time_due_ms(), self._orphans.due_ms(converter))
        return did

    def _failed(self, key: Key, converter: PartitionConverter, fault: Exception) -> None:
        self.stats.failures += 1
        if isinstance(fault, Fenced):
            logger.info("%s: another leader keeps its table: %s", converter.name, fault)
        elif converter.last_error is None:
            logger.warning("the table of %s waits: %s", converter.name, fault)
        converter.last_error = str(fault)
        self._paces[key].failed()

    def _measure(self) -> None:
        lags = [
            max(one.prefix.uploaded_end - one.converted_end, 0) for one in self.converters.values()
        ]
        self.stats.lag_records = sum(lags)
        self.stats.lag_partitions = sum(lag > 0 for lag in lags)
