"""The tables of a node: a chore beside the uploads, one conversion at a time.

A partition that publishes awakens its converter, and each that is awake has its turn: one file. So
one partition with years to convert does not keep the fresh segments of others waiting, and the node
spends one processor at most, at a rate, when nobody else wants it. Whatever goes wrong with one
partition is told once and puts off that partition alone. The store counts as away, which ends the
round, only where nobody comes to anything; the next round begins behind whoever met it last.

A table that was switched off grows no more, but what leaves the log leaves it all the same.
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
AWAY_MAX = 3
"""Partitions for which the store does not answer, before a round ends."""


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
        """Of the tables that are switched on."""
        self.due_from_ms: float = 0
        self._env = env
        self._partitions = partitions
        self._node_id = node_id
        self._settings = settings
        self._workshop = Workshop(env, store, tasks or env.tasks, directory)
        self._kept: dict[Key, PartitionConverter] = {}
        """These, and those that only let go of what they have."""
        self._paces: dict[Key, Pace] = {}
        self._meter = Meter(env.clock, settings.bytes_per_second)
        self._orphans = Orphans(env, store, settings, self.stats)
        self._is_clean = False
        self._followed_ms = -settings.follow_interval_ms
        self._awake: set[Key] = set()
        """Those who may have something to do: ten thousand partitions cost nothing while idle."""
        self._wakers: dict[Key, Callable[[], None]] = {}
        self._last: Key | None = None

    async def run(self) -> None:
        """A round: a turn for each partition that has something to do."""
        if not self._is_clean:
            await self._workshop.clear_leftovers()
            self._is_clean = True
        now_ms = self._env.clock.now_ms()
        if not 0 <= now_ms - self._followed_ms < self._settings.follow_interval_ms:
            self._followed_ms = now_ms
            self._follow(now_ms)
            self._awaken(now_ms)
        is_more, has_worked = False, False
        away: dict[Key, Exception] = {}
        for key in self._in_turn():
            converter = self._kept.get(key)
            if converter is None:
                self._awake.discard(key)
            elif not self._paces[key].is_paused:
                has_worked, self._last = True, key
                try:
                    is_more |= await self._turn(key, converter)
                except STORE_AWAY as fault:
                    away[key] = fault
                if len(away) >= AWAY_MAX:
                    break
        if has_worked:
            self._measure()
        self._judge(away, has_done_work=is_more)
        now_ms = self._env.clock.now_ms()
        self.due_from_ms = now_ms if is_more else now_ms + self._settings.interval_ms

    def _in_turn(self) -> list[Key]:
        """Those that are awake, from the one behind whoever had the last turn."""
        behind = [key for key in self._awake if self._last is None or key > self._last]
        return sorted(behind) + sorted(self._awake.difference(behind))

    def _judge(self, away: Mapping[Key, Exception], *, has_done_work: bool) -> None:
        """If the store was there for others it is the affair of these partitions alone."""
        for key, fault in away.items():
            if not has_done_work:
                raise fault
            self._failed(key, self._kept[key], fault)

    def _awaken(self, now_ms: int) -> None:
        """Those for whom time alone brings something to do."""
        self._awake |= {key for key, one in self._kept.items() if one.due_ms <= now_ms}

    def _follow(self, now_ms: int) -> None:
        """Partitions come, go, are fenced, and are switched on and off."""
        wanted = {key: one for key, one in self._partitions.items() if not one.is_fenced}
        for key in [one for one in self._kept if one not in wanted]:
            self._forget(key)
        for key, partition in wanted.items():
            known = self._kept.get(key)
            if known is not None and known.prefix is not partition.prefix:
                self._forget(key)
            if key not in self._kept:
                self._keep(key, partition, now_ms)
            self._switch(key, is_on=partition.dropper.tiering.table)

    def _keep(self, key: Key, partition: TieredPartition, now_ms: int) -> None:
        partition.prefix.watch(self._wakers.setdefault(key, partial(self._awake.add, key)))
        self._kept[key] = self._converter(partition)
        # Whether there is a table that was switched off is not urgent to know, and costs a request.
        self._kept[key].due_ms = now_ms + self._settings.off_look_ms
        self._paces[key] = Pace(
            self._env.clock, self._env.rng, ms_min=BACKOFF_MS_MIN, ms_max=BACKOFF_MS_MAX
        )

    def _switch(self, key: Key, *, is_on: bool) -> None:
        if is_on and key not in self.converters:
            self.converters[key] = self._kept[key]
            self._awake.add(key)
        elif not is_on and self.converters.pop(key, None) is not None:
            self._awake.add(key)

    def _forget(self, key: Key) -> None:
        self.converters.pop(key, None)
        self._kept.pop(key).prefix.unwatch(self._wakers.pop(key))
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
            did = await (self._worked if key in self.converters else self._tidied)(converter)
        except (StoreLies, ForeignIncarnation, *STORE_AWAY):
            self._awake.add(key)
            raise
        except Exception as fault:
            if not isinstance(fault, TierlogError | OSError | WorkerLost):
                # A bug of ours: it is told whole, and must not end the tables of all others.
                logger.exception("the table of %s stumbled", converter.name)
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

    async def _tidied(self, converter: PartitionConverter) -> bool:
        """Of a table that is switched off: it grows no more. Whether something left it."""
        now_ms = self._env.clock.now_ms()
        if converter.table is None:
            if now_ms < converter.due_ms:
                return False
            await converter.publisher.refresh()  # A job may have made one.
        converter.due_ms = now_ms + self._settings.retry_ms
        if converter.table is None:
            return False
        did = await converter.expire()
        did |= await converter.collect()
        await self._orphans.look(converter)
        due_ms = min(converter.garbage_due_ms(), self._orphans.due_ms(converter))
        converter.due_ms = min(converter.due_ms, due_ms)
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
