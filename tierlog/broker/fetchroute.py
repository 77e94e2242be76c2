"""Where the bytes for a consumer come from: the short road of Fetch.

A fetch of one partition that has enough to give is answered here, in few steps. A connection
remembers its requests (`wire.fetchopening`), and for each of them a `FetchRoute`: topic, partition
and limits, found once. A request that asks on from another offset is answered without parsing it
again. Whatever is unusual, an error or a wait included, takes the long road in `handlers/fetch.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker.request import MayBlock, Parts
from tierlog.errors import TierlogError
from tierlog.types import Bytes, Offset
from tierlog.wire.fetch import REPLICA_STATE_FROM, TOPIC_IDS_FROM
from tierlog.wire.fetched import fetched_writer

if TYPE_CHECKING:
    from tierlog.broker.node import Node
    from tierlog.broker.partition import Partition
    from tierlog.broker.topics import Topic
    from tierlog.fetchproxy.proxy import ColdRead
    from tierlog.hot import Log
    from tierlog.wire.messages.fetch import FetchRequest

READ_COMMITTED: Final = 1
ON_LOOP_MAX: Final = 1 << 20
"""Bytes of a partition that a sender may send on the loop."""


class FetchRoute:
    """One partition, as one consumer asks for it."""

    __slots__ = (
        "_bytes_max",
        "_log",
        "_min_bytes",
        "_partition",
        "_proxy",
        "_topic",
        "_write",
        "generation",
        "key",
    )

    def __init__(
        self,
        node: Node,
        topic: Topic,
        partition: Partition,
        request: FetchRequest,
        *,
        key: str | bytes,
        version: int,
    ) -> None:
        bytes_max = max(min(request.max_bytes, node.settings.fetch_max_bytes), 0)
        self.generation = node.topics.generation
        """Of the topics when it was found; while it is theirs, nothing has changed."""
        self.key = key
        self._topic = topic
        self._partition = partition
        self._proxy = node.proxy
        self._log = partition.log
        self._bytes_max = max(
            min(request.topics[0].partitions[0].partition_max_bytes, bytes_max), 0
        )
        self._min_bytes = max(min(request.min_bytes, bytes_max), 1)
        lists_aborted = request.isolation_level == READ_COMMITTED
        self._write = fetched_writer(version, key, partition.index, lists_aborted)

    def answer(self, offset: int, correlation_id: int) -> Parts | None:
        """The response from this offset on; None where anything is unusual."""
        log = self._log
        end = log.visible_end
        cold: ColdRead | None = None
        more: Bytes = b""
        if not log.log_start <= offset < end:
            cold = self._cold(offset)
            if cold is None:
                return None
            records, more = cold.records, cold.more
        else:
            try:
                records = log.view(Offset(offset), bytes_max=self._bytes_max, end=end)
            except TierlogError:
                return None
        size = len(records) + len(more)
        if size < self._min_bytes:
            return None
        stats = self._topic.stats
        stats.fetches += 1
        stats.bytes_out += size
        parts = self._write(correlation_id, end, self._partition.log_start, records, more)
        blocks = may_block(log, offset, size) if cold is None else cold.may_block
        return MayBlock(parts) if blocks else parts

    def _cold(self, offset: int) -> ColdRead | None:
        """What the bucket has and is here already, for a reader that reads on."""
        partition, proxy = self._partition, self._proxy
        cold = partition.cold
        if cold is None or proxy is None:
            return None
        if not partition.log_start <= offset < min(cold.uploaded_end, self._log.log_start):
            return None
        # Less is for the long road, which waits for more: an answer here cannot be taken back.
        if self._min_bytes > 1:
            return None
        return proxy.read_at_once(cold, Offset(offset), bytes_max=self._bytes_max)


def route_of(request: FetchRequest, node: Node, version: int) -> FetchRoute | None:
    """The road of a consumer that asks for one partition; None if anything about it is unusual."""
    asked = request.topics[0]
    ask = asked.partitions[0]
    topics = node.topics
    key: str | bytes
    if version >= TOPIC_IDS_FROM:
        key, topic = asked.topic_id, topics.by_id.get(asked.topic_id)
    else:
        key, topic = asked.topic, topics.by_name.get(asked.topic)
    if (
        topic is None
        or not 0 <= ask.partition < len(topic.partitions)
        or ask.last_fetched_epoch >= 0
        or replica_id(request, version) >= 0
    ):
        return None
    partition = topic.partitions[ask.partition]
    if partition.late is not None:
        return None
    if ask.current_leader_epoch >= 0 and ask.current_leader_epoch != partition.leader_epoch:
        return None
    return FetchRoute(node, topic, partition, request, key=key, version=version)


def replica_id(request: FetchRequest, version: int) -> int:
    """Who fetches: a follower's id, or -1 for a consumer."""
    if version < REPLICA_STATE_FROM:
        return request.replica_id
    replica = request.replica_state
    return -1 if replica is None else replica.replica_id


def may_block(log: Log, offset: int, size: int) -> bool:
    """Larger replies are never sent on the loop; of all others the pages must be there."""
    return size <= ON_LOOP_MAX and not log.is_recent(Offset(offset), size)
