"""Looks at the lag of every group now and then, beside everything else.

One round goes over all groups and partitions, in pieces of some milliseconds, and its result is
what everybody is told: metrics as of the last round, people as of one that is two seconds old at
most. However many ask, there is one round at a time. A round asks the store for at most `COLD_MAX`
times of records that are only there, and for a few pages of manifests, and waits `COLD_S` for all
of it; the next ones go on with others, and what is known of a record is not asked again. Nothing is
listed. Rounds take 2 % of a core at most: after one that took much work the pause is longer, and
what is told is older. Waiting is no work.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tierlog.errors import TierlogError
from tierlog.groups.distance import bytes_behind, is_local, time_at
from tierlog.groups.effort import Effort
from tierlog.groups.fates import Fates, fate_at
from tierlog.groups.lag import Facts, GroupLag, Sample, group_lag, kept, partition_lag
from tierlog.hot.errors import LogError

if TYPE_CHECKING:
    from tierlog.broker.node import Node
    from tierlog.broker.partition import Partition
    from tierlog.env import Clock
    from tierlog.groups.service import GroupCoordinator

logger = logging.getLogger(__name__)

ROUND_S: Final = 15.0
"""Between two rounds that nobody asked for: the usual pace of scrapes."""
FRESH_S: Final = 2.0
"""Whoever asks is told of a round that is no older, unless rounds are much work."""
SHARE: Final = 50
"""A second of work is followed by a pause of as many: 2 % of a core."""
A_TURN_S: Final = 0.003
COLD_MAX: Final = 64
COLD_AT_ONCE: Final = 8
COLD_S: Final = 3.0
"""How long a round waits for the store, whatever it asks for."""

Key = tuple[str, str, int]
"""Group, topic, partition."""


class Known(NamedTuple):
    """When the record at an offset was written. `version` changes when records may have gone."""

    offset: int
    version: tuple[int, ...]
    time_ms: int


@dataclass(slots=True)
class Round:
    """What all groups looked like at some moment."""

    groups: dict[str, GroupLag] = field(default_factory=dict)
    at_ms: int = -1
    """Wall clock; -1: nobody has looked yet."""
    at_s: float = float("-inf")
    work_s: float = 0.0
    """What it took of a core; waiting does not count."""
    loading: int = 0
    """Shards of the group state that were not loaded then: their groups are not among these."""


class Turns:
    """Long work in pieces of `A_TURN_S`: between them everybody else has a turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()

    async def next(self) -> None:
        if self._clock.monotonic() - self._began > A_TURN_S:
            await asyncio.sleep(0)
            self._began = self._clock.monotonic()


class LagWatch:
    def __init__(self, node: Node, groups: GroupCoordinator) -> None:
        self.latest = Round()
        self._node = node
        self._groups = groups
        self._fates = Fates(node)
        self._samples: dict[Key, list[Sample]] = {}
        self._times: dict[Key, Known] = {}
        self._turn = 0
        self._round: asyncio.Task[None] | None = None
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = self._node.env.tasks.spawn(self._run(), name="lag")

    async def stop(self) -> None:
        tasks = [one for one in (self._loop, self._round) if one is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self.fresh()
            await asyncio.sleep(max(ROUND_S, SHARE * self.latest.work_s))

    async def fresh(self) -> Round:
        """A round that is new enough; the one under way, if there is one."""
        clock = self._node.env.clock
        age_s = max(FRESH_S, SHARE * self.latest.work_s)
        if clock.monotonic() - self.latest.at_s > age_s:
            if self._round is None:
                self._round = self._node.env.tasks.spawn(self._look(), name="a look at lag")
                self._round.add_done_callback(self._ended)
            await asyncio.wait({self._round})
        return self.latest

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._round = None
        if not task.cancelled() and (fault := task.exception()) is not None:
            logger.error("the lag of groups could not be found", exc_info=fault)

    # A round

    async def _look(self) -> None:
        clock = self._node.env.clock
        effort = Effort(clock)
        found = await effort.count(self._looked(effort))
        found.at_s, found.work_s = clock.monotonic(), effort.seconds
        self.latest = found

    async def _looked(self, effort: Effort) -> Round:
        turns = Turns(self._node.env.clock)
        loading = self._groups.loading
        committed = await self._committed(turns)
        await self._ask_store(committed, turns, effort)
        rows: dict[str, list[Facts]] = {}
        for key, offset in committed.items():
            facts = await self._facts(key, offset, effort)
            if facts is not None:
                rows.setdefault(key[0], []).append(facts)
            await turns.next()
        await self._forget_others(committed, turns)
        now_ms = self._node.env.clock.now_ms()  # One for all, so that they can be compared.
        found = {}
        for name, some in rows.items():
            lags = []
            for one in some:
                lags.append(partition_lag(one, now_ms=now_ms))
                await turns.next()
            found[name] = group_lag(name, lags)
        return Round(found, now_ms, loading=loading)

    async def _committed(self, turns: Turns) -> dict[Key, int]:
        """Of each group as of one moment; others commit meanwhile."""
        found: dict[Key, int] = {}
        for shard in self._groups.shards:
            for group in list(shard.machine.offsets) if shard.is_loaded else ():
                known = shard.machine.committed(group)
                found |= {(group, *place): one.offset for place, one in known.items()}
                await turns.next()
        return found

    def _partition(self, key: Key) -> Partition | None:
        """None while it is not there, or not open."""
        topic = self._node.topics.by_name.get(key[1])
        if topic is None or key[2] >= len(topic.partitions):
            return None
        found = topic.partitions[key[2]]
        return found if found.late is None else None

    async def _facts(self, key: Key, committed: int, effort: Effort) -> Facts | None:
        partition = self._partition(key)
        if partition is None:
            return None
        try:
            return await self._of_partition(key, partition, committed, effort)
        except (LogError, TierlogError) as fault:
            logger.info("the lag of %s at %s-%d is not known: %s", *key, fault)
            return None

    async def _of_partition(
        self, key: Key, partition: Partition, committed: int, effort: Effort
    ) -> Facts:
        log_start, end = int(partition.log_start), int(partition.high_watermark)
        offset = max(committed, log_start)
        sample = Sample(self._node.env.clock.monotonic(), committed, end)
        self._samples[key] = samples = kept(self._samples.get(key, ()), sample)
        fate, time_ms, size = None, None, 0
        if offset < end:
            fate = fate_at(self._fates.of(partition), offset)
            time_ms = await self._time(key, partition, offset, effort)
            size = bytes_behind(partition, offset)
        config = partition.topic.config
        expires = "delete" in config.cleanup_policy
        return Facts(
            topic=key[1],
            partition=key[2],
            committed=committed,
            log_start=log_start,
            local_start=int(partition.log.log_start),
            end=end,
            bytes=size,
            first_unread_ms=time_ms,
            fate=fate,
            retention_ms=config.retention_ms if expires else -1,
            retention_bytes=config.retention_bytes if expires else -1,
            samples=samples,
        )

    # Times of records

    async def _time(
        self, key: Key, partition: Partition, offset: int, effort: Effort
    ) -> int | None:
        known = self._times.get(key)
        if known is not None and known[:2] == (offset, _version(partition)):
            return known.time_ms
        if not is_local(partition, offset):
            return None  # It was not its turn, or the store did not answer.
        return await self._note_time(key, partition, offset, effort)

    async def _note_time(
        self, key: Key, partition: Partition, offset: int, effort: Effort
    ) -> int | None:
        version = _version(partition)
        time_ms = await time_at(self._node, partition, offset, effort)
        if time_ms is not None:
            self._times[key] = Known(offset, version, time_ms)
        return time_ms

    # What the store is asked

    async def _ask_store(self, committed: dict[Key, int], turns: Turns, effort: Effort) -> None:
        """For times of records and for fates, side by side: what answers in time."""
        times, behind = [], {}
        for key, offset in committed.items():
            partition = self._partition(key)
            if (
                partition is not None
                and max(offset, partition.log_start) < partition.high_watermark
            ):
                behind[partition.topic.id, partition.index] = partition
                if self._must_ask_for_time(key, partition, offset):
                    times.append(key)
            await turns.next()
        deadline_s = asyncio.get_running_loop().time() + COLD_S
        await asyncio.gather(
            self._learn_times(self._whose_turn(times), committed, deadline_s, effort),
            self._fates.learn(behind.values(), deadline_s=deadline_s, effort=effort),
        )

    def _must_ask_for_time(self, key: Key, partition: Partition, committed: int) -> bool:
        offset = max(committed, int(partition.log_start))
        if is_local(partition, offset):
            return False
        known = self._times.get(key)
        return known is None or known[:2] != (offset, _version(partition))

    def _whose_turn(self, keys: list[Key]) -> list[Key]:
        if not keys:
            return []
        first = self._turn % len(keys)
        self._turn += COLD_MAX  # Whoever moves on is unknown every time: others come first.
        return (keys[first:] + keys[:first])[:COLD_MAX]

    async def _learn_times(
        self, keys: list[Key], committed: dict[Key, int], deadline_s: float, effort: Effort
    ) -> None:
        waiting = iter(keys)

        async def some() -> None:
            for key in waiting:
                partition = self._partition(key)
                if partition is None:
                    continue
                offset = max(committed[key], int(partition.log_start))
                try:
                    await self._note_time(key, partition, offset, effort)
                except (LogError, TierlogError) as fault:
                    logger.info("when %s-%d was written is not known: %s", *key[1:], fault)

        try:
            async with asyncio.timeout_at(deadline_s):
                await asyncio.gather(*(effort.count(some()) for _ in keys[:COLD_AT_ONCE]))
        except TimeoutError:
            logger.info("the store is slow: the lag of some groups has no seconds for now")

    async def _forget_others(self, committed: dict[Key, int], turns: Turns) -> None:
        for remembered in (self._samples, self._times):
            for key in remembered.keys() - committed.keys():
                del remembered[key]
        kept = set()
        for key in committed:
            if (partition := self._partition(key)) is not None:
                kept.add((partition.topic.id, partition.index))
            await turns.next()
        self._fates.forget_others(kept)


def _version(partition: Partition) -> tuple[int, ...]:
    """A compacted log may lose the record that was the first one unread."""
    return (int(partition.log.cleaned_to),)


def lag_of(node: Node) -> LagWatch | None:
    """None before the node has got that far."""
    found = node.services.get(LagWatch)
    assert found is None or isinstance(found, LagWatch), "registered under its own class"
    return found
