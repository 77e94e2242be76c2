"""When the records of a partition leave the disk, and when they are gone: from `cold.explaining`.

Reads at most a few pages of the manifest from the store, those of some partitions side by side and
until one deadline for all, and keeps what it found for a minute. A page that did not come in time
stays closed: the fate of its segments is told as one, and it is asked for again next time. A store
that does not answer is not asked for another page.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tierlog.cold.explained import State, Step, Why
from tierlog.cold.explaining import explain
from tierlog.cold.factfinding import ColdRows, health_of, of_log, of_tiered, rules_of
from tierlog.cold.pagevisit import PageVisit
from tierlog.errors import TierlogError
from tierlog.groups.lag import Fate
from tierlog.hot.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tierlog.broker.node import Node
    from tierlog.broker.partition import Partition
    from tierlog.cold.explained import Explained
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.cold.segmentfacts import Facts
    from tierlog.groups.effort import Effort

logger = logging.getLogger(__name__)

AGE_S_MAX: Final = 60.0
AT_ONCE: Final = 8
"""Partitions whose pages are asked for side by side."""

STAYS: Final = frozenset((Why.FOR_EVER, Why.COMPACTED, Why.HOLD, Why.BEHIND_HOLD, Why.FENCED))
"""Why records never go, as things stand."""

Place = tuple[bytes, int]
"""Topic's id and partition."""


class Known(NamedTuple):
    at_s: float
    fates: list[Fate]
    is_whole: bool
    """Whether every page that was wanted came."""


NOTHING: Final = Known(float("-inf"), [], is_whole=False)


class Fates:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[Place, Known] = {}

    def of(self, partition: Partition) -> list[Fate]:
        """Oldest first, as learnt last; empty where the log could not be asked."""
        return self._known.get(_place(partition), NOTHING).fates

    def forget_others(self, places: set[Place]) -> None:
        for place in self._known.keys() - places:
            del self._known[place]

    async def learn(
        self, partitions: Iterable[Partition], *, deadline_s: float, effort: Effort
    ) -> None:
        """Those that are not known, or not any more. The store is waited for until `deadline_s` of
        the loop's clock; whose turn comes later is judged by what HEAD says, or as before."""
        visit = PageVisit(deadline_s)
        # Those that wait for longest come first, so that a slow store gets to all of them.
        due = sorted(filter(self._is_due, partitions), key=self._learnt_s)
        waiting = iter(due)

        async def some() -> None:
            for partition in waiting:
                if not (visit.is_over and self._is_recent(partition)):
                    await self._learn(partition, visit, effort)

        await asyncio.gather(*(effort.count(some()) for _ in range(min(AT_ONCE, len(due)))))

    def _learnt_s(self, partition: Partition) -> float:
        return self._known.get(_place(partition), NOTHING).at_s

    def _is_recent(self, partition: Partition) -> bool:
        return self._node.env.clock.monotonic() - self._learnt_s(partition) < AGE_S_MAX

    def _is_due(self, partition: Partition) -> bool:
        is_whole = self._known.get(_place(partition), NOTHING).is_whole
        return not (is_whole and self._is_recent(partition))

    async def _learn(self, partition: Partition, visit: PageVisit, effort: Effort) -> None:
        began = self._node.env.clock.monotonic()
        try:
            facts, is_whole = await self._facts(partition, visit)
        except (LogError, TierlogError) as fault:
            logger.info("what becomes of %s-%d: %s", partition.topic.name, partition.index, fault)
            self._known[_place(partition)] = Known(began, [], is_whole=True)
            return
        found = await self._node.env.tasks.in_thread(effort.counted(_judged), facts)
        self._known[_place(partition)] = Known(began, found, is_whole)

    async def _facts(self, partition: Partition, visit: PageVisit) -> tuple[Facts, bool]:
        node, topic = self._node, partition.topic
        rules = rules_of(topic.config, grace_ms=node.settings.tierlog_garbage_grace_ms)
        tier = None if node.tiering is None else node.tiering.tier
        tiered = None if tier is None else tier.partitions.get((topic.id.hex(), partition.index))
        if tier is None or tiered is None:
            now_ms = node.env.clock.now_ms()
            start = partition.log_start
            return of_log(partition.log, log_start=start, rules=rules, now_ms=now_ms), True
        cold = await _rows(partition, tiered.prefix, visit)
        facts = of_tiered(
            tiered,
            cold.rows if cold is not None else [],
            store=health_of(tier),
            log_start=partition.log_start,
            rules=rules,
            now_ms=node.env.clock.now_ms(),
        )
        return facts, cold is None or not cold.problems


async def _rows(partition: Partition, prefix: ColdPrefix, visit: PageVisit) -> ColdRows | None:
    if prefix.head is None:
        return None
    return await ColdRows(
        prefix.head,
        partial(visit.page, prefix),
        log_start=partition.log_start,
        local_start=partition.log.log_start,
    ).find()


def _place(partition: Partition) -> Place:
    return partition.topic.id, partition.index


def _judged(facts: Facts) -> list[Fate]:
    rules = facts.rules
    return fates_of(explain(facts), facts.now_ms, copies=rules.is_tiered and rules.copies)


def fates_of(rows: Iterable[Explained], now_ms: int, *, copies: bool = True) -> list[Fate]:
    """Of what can still be read, oldest first. `copies`: what is sealed leaves the disk some time
    after it is in the bucket."""
    return [
        Fate(
            row.base,
            row.next_offset,
            _drops_ms(row, now_ms),
            _first(row, Step.EXPIRE, now_ms),
            is_open=all(one.step is not Step.EXPIRE for one in row.reasons),
            is_drop_known=not copies
            or row.state is State.DROPPED
            or _is_known(row, Step.DROP, now_ms),
            is_expiry_known=_is_known(row, Step.EXPIRE, now_ms),
        )
        for row in rows
        if row.state not in (State.EXPIRED, State.MERGED)
    ]


def _drops_ms(row: Explained, now_ms: int) -> int | None:
    if row.state is State.DROPPED:
        return 0
    return _first(row, Step.DROP, now_ms)


def _first(row: Explained, step: Step, now_ms: int) -> int | None:
    times = [
        now_ms if one.is_due else one.at_ms
        for one in row.reasons
        if one.step is step and (one.is_due or one.at_ms is not None)
    ]
    return min((one for one in times if one is not None), default=None)


def _is_known(row: Explained, step: Step, now_ms: int) -> bool:
    """There is a time, or a reason why it never comes as things stand."""
    stays = any(one.step is step and one.why in STAYS for one in row.reasons)
    return stays or _first(row, step, now_ms) is not None


def fate_at(fates: Sequence[Fate], offset: int) -> Fate | None:
    """Of the record at `offset`, or the first behind it."""
    at = bisect_right(fates, offset, key=lambda one: one.next_offset)
    return fates[at] if at < len(fates) else None
