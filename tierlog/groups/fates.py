"""When the records of a partition leave the disk, and when they are gone: from `cold.explaining`.

Reads at most a few pages of the manifest from the store, and keeps what it found for a minute:
whoever asks about many groups asks once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING, Final

from tierlog.cold.explained import State, Step
from tierlog.cold.explaining import explain
from tierlog.cold.factfinding import ColdRows, health_of, of_log, of_tiered, rules_of
from tierlog.errors import TierlogError
from tierlog.groups.lag import Fate
from tierlog.hot.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tierlog.broker.node import Node
    from tierlog.broker.partition import Partition
    from tierlog.cold.explained import Explained
    from tierlog.cold.head import PageRef
    from tierlog.cold.page import Page
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.cold.segmentfacts import Facts

AGE_S_MAX: Final = 60.0
PAGE_S: Final = 3.0
"""How long a page is waited for: the fate of its segments is then told as one."""

Place = tuple[bytes, int]
"""Topic's id and partition."""


class Fates:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[Place, tuple[float, list[Fate]]] = {}

    async def of(self, partition: Partition) -> list[Fate]:
        """Oldest first; empty where the log cannot be asked."""
        place, now = (partition.topic.id, partition.index), self._node.env.clock.monotonic()
        known = self._known.get(place)
        if known is not None and now - known[0] < AGE_S_MAX:
            return known[1]
        try:
            facts = await self._facts(partition)
        except LogError:
            return []
        now_ms = facts.now_ms
        found = await self._node.env.tasks.in_thread(lambda: fates_of(explain(facts), now_ms))
        self._known[place] = now, found
        return found

    def forget_others(self, places: set[Place]) -> None:
        for place in self._known.keys() - places:
            del self._known[place]

    async def _facts(self, partition: Partition) -> Facts:
        node, topic = self._node, partition.topic
        rules = rules_of(topic.config, grace_ms=node.settings.tierlog_garbage_grace_ms)
        tier = None if node.tiering is None else node.tiering.tier
        tiered = None if tier is None else tier.partitions.get((topic.id.hex(), partition.index))
        if tier is None or tiered is None:
            now_ms = node.env.clock.now_ms()
            return of_log(partition.log, log_start=partition.log_start, rules=rules, now_ms=now_ms)
        cold = await _rows(partition, tiered.prefix)
        return of_tiered(
            tiered,
            cold.rows if cold is not None else [],
            store=health_of(tier),
            log_start=partition.log_start,
            rules=rules,
            now_ms=node.env.clock.now_ms(),
        )


async def _rows(partition: Partition, prefix: ColdPrefix) -> ColdRows | None:
    if prefix.head is None:
        return None
    return await ColdRows(
        prefix.head,
        partial(_page, prefix),
        log_start=partition.log_start,
        local_start=partition.log.log_start,
    ).find()


async def _page(prefix: ColdPrefix, ref: PageRef) -> Page:
    try:
        async with asyncio.timeout(PAGE_S):
            return await prefix.page(ref)
    except TimeoutError:
        raise TierlogError("the store did not answer in time") from None


def fates_of(rows: Iterable[Explained], now_ms: int) -> list[Fate]:
    """Of what can still be read, oldest first."""
    return [
        Fate(
            row.base,
            row.next_offset,
            _drops_ms(row, now_ms),
            _first(row, Step.EXPIRE, now_ms),
            all(one.step is not Step.EXPIRE for one in row.reasons),
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


def fate_at(fates: Sequence[Fate], offset: int) -> Fate | None:
    """Of the record at `offset`, or the first behind it."""
    at = bisect_right(fates, offset, key=lambda one: one.next_offset)
    return fates[at] if at < len(fates) else None
