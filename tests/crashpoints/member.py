"""One life of a node of the story: two tiered partitions, and what it appended to them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tests.hot.support import append, batch
from tierlog.cold.clusterstate import TopicRecord
from tierlog.cold.layout import PartitionKeys, cluster_prefix
from tierlog.cold.tier import ColdTier
from tierlog.cold.tiersettings import TierSettings, TopicTiering
from tierlog.config.directories import LOGS
from tierlog.hot import Log, LogDirectory, LogSettings
from tierlog.sim.objectstore import SimStore
from tierlog.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crashpoints.ledger import Ledger
    from tierlog.cold.head import Incarnation
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.env import Env
    from tierlog.sim.bucket import SimBucket

CLUSTER = "a-cluster"
PREFIX = cluster_prefix("", CLUSTER)
TOPICS = {"a" * 32: TopicRecord(name="orders", partitions=2)}
DATA = "/data"
LOG_SETTINGS = LogSettings(segment_bytes=4096, index_interval_bytes=256, checkpoint_bytes=2048)
SETTINGS = TierSettings(check_interval_ms=200, commit_segments_max=1, backoff_ms_max=4_000)
TIERING = TopicTiering(local_retention_ms=0)
SETTLE_SECONDS = 90.0
"""Virtual: the longest pauses after a failure are a few seconds each."""
PARTS = 0
"""Of `single_put_bytes_max`: every object is sent in parts."""


class Place(NamedTuple):
    topic_id: str
    partition: int

    @property
    def keys(self) -> PartitionKeys:
        return PartitionKeys(PREFIX, self.topic_id, self.partition)


PLACES = tuple(Place(key, index) for key in TOPICS for index in range(TOPICS[key].partitions))

ROUND = {PLACES[0]: 2, PLACES[1]: 1}
"""Segments of each partition in a round: the first one gets to its index pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Who a process is."""

    host: str
    leader_epoch: int
    incarnation: Incarnation
    sends_parts: bool = False


class Unsettled(Exception):
    """Something is sealed and does not become cold."""


class Member:
    def __init__(
        self,
        env: Env,
        bucket: SimBucket,
        role: Role,
        ledger: Ledger,
        tiering: TopicTiering | None = None,
    ) -> None:
        self.role = role
        self.env = env
        self.store = SimStore(bucket, env)
        self._tiering = tiering or TIERING  # As it is now: a story may have put another there.
        self.logs: dict[Place, Log] = {}
        self.appended: dict[Place, dict[int, bytes]] = {place: {} for place in PLACES}
        self.is_closed = False
        self._ledger = ledger
        self._directory = LogDirectory(env, f"{DATA}/{LOGS}", reserve_bytes=0)
        settings = replace(SETTINGS, single_put_bytes_max=PARTS) if role.sends_parts else SETTINGS
        self.tier = ColdTier(
            env,
            self.store,
            settings,
            data=DATA,
            cluster_id=CLUSTER,
            node_id=1,
            process=env.rng.uuid().hex,
            incarnation=role.incarnation,
            probe=believe,
        )

    async def open(self) -> None:
        await self.tier.start()
        for place in PLACES:
            name = f"{place.topic_id}-{place.partition}"
            log = await self.tier.maker.open_log(
                self._directory,
                name,
                LOG_SETTINGS,
                topic_id=place.topic_id,
                topic=TOPICS[place.topic_id],
                index=place.partition,
                leader_epoch=LeaderEpoch(self.role.leader_epoch),
                tiering=self._tiering,
                is_first=True,
            )
            self.logs[place] = log
            await self.tier.attach(
                place.topic_id,
                TOPICS[place.topic_id],
                place.partition,
                log,
                leader_epoch=LeaderEpoch(self.role.leader_epoch),
                tiering=self._tiering,
            )

    async def close(self) -> None:
        self.is_closed = True
        await self.tier.stop()
        for log in self.logs.values():
            await log.close()
        self._directory.close()

    # One round

    async def play_round(self, is_owner: Callable[[], bool]) -> None:
        """A few sealed segments, and then all of it is cold and dropped. Raises `Unsettled`."""
        for place, count in ROUND.items():
            for _ in range(count):
                await self._fill(place, is_owner)
                self.logs[place].roll()
        for log in self.logs.values():
            await log.settle()
        if not await self._settled() and is_owner():
            raise Unsettled("; ".join(self._troubles()))

    async def _fill(self, place: Place, is_owner: Callable[[], bool]) -> None:
        """Two batches. What is visible is acknowledged, unless another owns the partition now."""
        log = self.logs[place]
        for number in range(2):
            offset = log.log_end
            value = self._ledger.value(self.role, place, offset, size=1 + 300 * number)
            data = batch(value, timestamp=self.env.clock.now_ms())
            self.appended[place][offset] = value
            now_ms = self.env.clock.now_ms()
            append(log, data, leader_epoch=self.role.leader_epoch, now_ms=now_ms)
            await log.wait_visible(Offset(offset + 1))
            if is_owner():
                self._ledger.acked(place, offset, value)

    async def _settled(self) -> bool:
        """Whether everything is cold, before it is refused or too late."""
        clock = self.env.clock
        until = clock.monotonic() + SETTLE_SECONDS
        while clock.monotonic() < until and self.tier.refusal is None:
            waiting = [one for one in self._partitions() if not _is_done(one, clock.now_ms())]
            if all(one.is_fenced for one in waiting):
                return not waiting
            await asyncio.sleep(0.1)
        return False

    # What became of it

    @property
    def is_still_trying(self) -> bool:
        """Some partition has something to publish, and nobody told it that it may not."""
        if self.is_closed or self.tier.refusal is not None:
            return False
        return any(one.uploader.has_work() and not one.is_fenced for one in self._partitions())

    def _partitions(self) -> list[TieredPartition]:
        return list(self.tier.partitions.values())

    def _troubles(self) -> list[str]:
        return [
            f"{self.role.host}: [{one.log.log_start}, {one.log.log_end}) and cold up to "
            f"{one.prefix.uploaded_end}, {one.status.last_error or 'no error'}"
            for one in self._partitions()
        ]


def _is_done(one: TieredPartition, now_ms: int) -> bool:
    is_cold = one.prefix.uploaded_end >= one.log.log_end and one.task is None
    return is_cold and not one.dropper.due(now_ms)


async def believe() -> None:
    """The store is believed: its probe has tests of its own."""
