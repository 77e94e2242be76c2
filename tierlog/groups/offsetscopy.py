"""The copy of the groups' offsets in the bucket, kept fresh: a chore of the cold tier.

Every `PERIOD_MS` somebody looks whether the logs of the coordinator have grown; if so the offsets
are gathered, and written if they differ from what the bucket has. So what a restore finds is 30 s
old at most while the store answers, and a month costs at most 106,000 PUTs (half a dollar), however
many groups there are; without commits it costs nothing.

Only what is durable here is copied: a commit that a power cut takes back is not in the bucket.
"""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING, Final

from tierlog.cold.clusteroffsets import GroupOffset, Spot
from tierlog.cold.refusals import Fenced
from tierlog.coordinator.errors import CoordinatorError
from tierlog.groups.effort import Effort
from tierlog.groups.service import TOPIC
from tierlog.types import LeaderEpoch, Offset

if TYPE_CHECKING:
    from tierlog.broker.node import Node
    from tierlog.broker.topics import Topic
    from tierlog.cold.tier import ColdTier
    from tierlog.coordinator.shard import Shard
    from tierlog.groups.machine import GroupMachine
    from tierlog.groups.service import GroupCoordinator

logger = logging.getLogger(__name__)

PERIOD_MS: Final = 25_000
"""With the tier's look every second and the time of a write this stays below 30 s."""
RETRY_MS: Final = 1_000
"""While something is not there yet."""
A_TURN: Final = 1_000
"""Offsets that are looked at before others have their turn: two milliseconds."""
SHARE: Final = 20
"""After a copy that took a second to make, as many seconds pass before the next: 5 % of a core at
most."""


class OffsetsCopy:
    name = "copy of group offsets"

    def __init__(self, node: Node, groups: GroupCoordinator, tier: ColdTier) -> None:
        self.due_from_ms: float = 0
        self.fence: Fenced | None = None
        """Why this process copies no more."""
        self.copies = 0
        """Written so far."""
        self.copied_ms = -1
        """When the bucket was last known to say what this node knows."""
        self._node = node
        self._groups = groups
        self._tier = tier
        self._ends: list[int] = []
        """Of the logs, when they were last copied."""
        self._gathering_ms = 0.0
        """How long the last look at all groups took."""

    async def run(self) -> None:
        clock = self._node.env.clock
        if self.fence is not None:
            self.due_from_ms = inf
            return
        self.due_from_ms = clock.now_ms() + RETRY_MS
        topic = self._topic()
        if topic is None:
            return
        began_ms = clock.now_ms()
        ends = [int(one.log.log_end) for one in topic.partitions]
        if ends != self._ends and not await self._copy(topic):
            return
        self._ends, self.copied_ms = ends, began_ms
        # The node's own time counts, not the store's: a slow write would make copies old.
        self.due_from_ms = began_ms + max(PERIOD_MS, SHARE * self._gathering_ms)

    def _topic(self) -> Topic | None:
        """Once it is loaded, and a restore would find it."""
        topic = self._node.topics.by_name.get(TOPIC)
        shards = self._groups.shards
        if topic is None or not shards or not all(shard.is_loaded for shard in shards):
            return None
        state = self._tier.membership.keeper
        return topic if state.covers(topic.id.hex(), partitions=len(topic.partitions)) else None

    async def _copy(self, topic: Topic) -> bool:
        found: dict[str, dict[Spot, GroupOffset]] = {}
        effort = Effort(self._node.env.clock)
        ids = {name: one.id.hex() for name, one in self._node.topics.by_name.items()}
        try:
            for shard in self._groups.shards:
                found.update(await effort.count(gathered(shard, ids)))
        except CoordinatorError:
            return False  # It loads again, or stops.
        self._gathering_ms = effort.seconds * 1000
        # A topic that was just made begins at epoch 0, which is a restore's.
        epoch = LeaderEpoch(topic.partitions[0].leader_epoch + 1)
        try:
            self.copies += await self._tier.offsets.put(found, leader_epoch=epoch)
        except Fenced as fence:
            self.fence = fence
            logger.warning("the offsets of groups are not copied any more: %s", fence)
        return True


async def gathered(
    shard: Shard[GroupMachine], ids: dict[str, str]
) -> dict[str, dict[Spot, GroupOffset]]:
    """As one moment had them, once that is durable. Topics that are gone have no id any more.

    Only taking hold of them is done at once, a millisecond for 40,000; what is made of them takes
    80, and others have their turn meanwhile.
    """
    held = await shard.read(
        lambda machine: {group: dict(machine.committed(group)) for group in machine.offsets}
    )
    found: dict[str, dict[Spot, GroupOffset]] = {}
    looked = 0
    for group, known in held.items():
        rows = {}
        for (topic, partition), one in known.items():
            if topic in ids and one.offset >= 0:
                rows[Spot(ids[topic], partition)] = GroupOffset(
                    Offset(one.offset), one.leader_epoch, one.metadata, max(one.wall_ms, 0)
                )
            looked += 1
            if looked % A_TURN == 0:
                await asyncio.sleep(0)
        if rows:
            found[group] = rows
    return found


def copy_offsets(node: Node, groups: GroupCoordinator) -> OffsetsCopy | None:
    """Keep a copy from now on; without a store there is none."""
    if node.tiering is None:
        return None
    copy = OffsetsCopy(node, groups, node.tiering.tier)
    node.tiering.tier.chores.append(copy)
    return copy
