"""`/explain/TOPIC` and `/explain/TOPIC/PARTITION`: where segments are, why, and until when.

Without a partition, those from `?from=` on, some at a time: `next_partition` says where to go on.
Neighbours of one fate are one row; `?after=OFFSET` asks for every segment that ends behind it, and
`next_after` goes on. Reads at most a few pages of the manifest from the store, and only where the
last known HEAD does not say enough; changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Final

from tierlog.cold.explanation import ROWS_MAX, partition_value, topic_value
from tierlog.cold.factfinding import ColdRows, health_of, of_log, of_tiered, rules_of
from tierlog.cold.segmentfacts import StoreHealth
from tierlog.hot.errors import LogError
from tierlog.http.message import Request, Response
from tierlog.http.problem import Problem
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.types import Offset

if TYPE_CHECKING:
    from tierlog.broker.partition import Partition
    from tierlog.broker.topics import Topic
    from tierlog.cold.head import PageRef
    from tierlog.cold.page import Page
    from tierlog.cold.prefix import ColdPrefix
    from tierlog.cold.segmentfacts import Facts, Rules
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.http.view import NodeView

PREFIX: Final = "/explain/"
PARTITIONS_MAX: Final = 20
"""Of one answer."""
PAGE_S: Final = 3.0
DAMAGES_MAX: Final = 20
"""Of one partition, each with its key."""


class Explain:
    def __init__(self, view: NodeView) -> None:
        self._view = view

    async def handle(self, request: Request) -> Response:
        name, slash, index = request.path.removeprefix(PREFIX).partition("/")
        topic = self._topic(name)
        if slash:
            wanted = [self._partition(topic, index)]
            rest = None
        else:
            first = number(request, "from") or 0
            wanted = topic.partitions[first : first + PARTITIONS_MAX]
            rest = (
                first + PARTITIONS_MAX if first + PARTITIONS_MAX < len(topic.partitions) else None
            )
        body = {
            **self._about(topic),
            "partition_count": len(topic.partitions),
            "partitions": [await self._explained(one, number(request, "after")) for one in wanted],
            "next_partition": rest,
        }
        return Response(body=json.dumps(body).encode() + b"\n", content_type="application/json")

    def _topic(self, name: str) -> Topic:
        topic = self._view.node.topics.by_name.get(name)
        if topic is None:
            raise Problem(404, f"there is no topic {name[:250]!r}", members={"topic": name[:250]})
        return topic

    def _partition(self, topic: Topic, index: str) -> Partition:
        if index.isascii() and index.isdigit() and int(index[:10]) < len(topic.partitions):
            return topic.partitions[int(index[:10])]
        last = len(topic.partitions) - 1
        raise Problem(404, f"{topic.name} has partitions 0 to {last}, no {index[:20]!r}")

    def _about(self, topic: Topic) -> dict[str, object]:
        return topic_value(
            name=topic.name,
            topic_id=topic.id.hex(),
            now_ms=self._view.node.env.clock.now_ms(),
            rules=self._rules(topic),
            store=self._health(),
        )

    def _rules(self, topic: Topic) -> Rules:
        return rules_of(topic.config, grace_ms=self._view.node.settings.tierlog_garbage_grace_ms)

    def _health(self) -> StoreHealth:
        tiering = self._view.tiering
        return StoreHealth() if tiering is None else health_of(tiering.tier)

    async def _explained(self, partition: Partition, after: int | None) -> dict[str, object]:
        tiering = self._view.tiering
        key = (partition.topic.id.hex(), partition.index)
        tiered = None if tiering is None else tiering.tier.partitions.get(key)
        rules = self._rules(partition.topic)
        problems: list[str] = []
        try:
            if tiered is None:
                now_ms = self._view.node.env.clock.now_ms()
                start = partition.log_start
                facts = of_log(partition.log, log_start=start, rules=rules, now_ms=now_ms)
            else:
                facts, problems = await self._facts(partition, tiered, rules, after)
        except LogError as fault:
            raise Problem(503, str(fault)) from fault
        head = None if tiered is None else tiered.prefix.head
        if tiered is not None and not after:
            problems += self._damages(tiered.prefix.keys.prefix)
        # Values only from here on: a hundred thousand segments take a second, elsewhere.
        return await self._view.node.env.tasks.in_thread(
            partial(partition_value, partition.index, facts, head, problems=problems, after=after)
        )

    def _damages(self, prefix: str) -> list[str]:
        """What the scrubber found below it, by offsets."""
        assert self._view.tiering is not None, "the partition is tiered"
        known = self._view.tiering.scrubber.findings.values()
        found = sorted(
            (one for one in known if one.key.startswith(prefix)), key=lambda one: one.start or 0
        )
        told = [f"damaged: {one.sentence}" for one in found[:DAMAGES_MAX]]
        left = len(found) - len(told)
        return [*told, f"{left:,} more are damaged: `tierlog verify`"] if left else told

    async def _facts(
        self, partition: Partition, tiered: TieredPartition, rules: Rules, after: int | None
    ) -> tuple[Facts, list[str]]:
        prefix, log = tiered.prefix, partition.log
        cold, problems = [], []
        if prefix.head is not None:
            found = await ColdRows(
                prefix.head,
                partial(page_in_time, prefix),
                log_start=partition.log_start,
                local_start=log.log_start,
                singles_from=None if after is None else Offset(after),
                singles_max=ROWS_MAX + 1,
            ).find()
            cold, problems = found.rows, found.problems
        if prefix.is_unknown:
            problems.append("what the store has of this partition is not known yet")
        return (
            of_tiered(
                tiered,
                cold,
                store=self._health(),
                log_start=partition.log_start,
                rules=rules,
                now_ms=self._view.node.env.clock.now_ms(),
            ),
            problems,
        )


async def page_in_time(prefix: ColdPrefix, ref: PageRef) -> Page:
    """Whoever asks waits; the retries of a store that is away take longer than that."""
    try:
        async with asyncio.timeout(PAGE_S):
            return await prefix.page(ref)
    except TimeoutError:
        raise StoreUnavailable("the store did not answer in time") from None


def number(request: Request, name: str) -> int | None:
    """Of the query; None where it is not given."""
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise Problem(400, f"{name} is {text[:40]!r}; it must be a number from 0 on")
    return int(text)
