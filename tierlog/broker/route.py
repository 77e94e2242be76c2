"""Where the batches of a producer go: the short road of Produce.

A connection remembers the openings of its Produce requests (`wire.opening`), and for each of them
a `Route`: topic and partition, found once. A request that begins like an earlier one is appended
without parsing it again. Whatever is unusual takes the long road in `handlers/produce.py`, which
answers the same; a route whose topic is gone, or a disk that runs full, are such cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tierlog.broker.acknowledging import limited
from tierlog.broker.call import Call
from tierlog.broker.patience import Patience
from tierlog.errors import TierlogError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.produced import produced_writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tierlog.broker.node import Node
    from tierlog.broker.request import Answer, Peer
    from tierlog.broker.topics import Topic
    from tierlog.hot import Appended


Serve: TypeAlias = "Callable[[memoryview, Route, int, Peer], Answer]"
"""Batch, route, correlation id and peer: what answers a request that takes this road."""


class Route:
    """One partition, as one producer asks for it."""

    __slots__ = (
        "_append",
        "_node",
        "_now_ms",
        "acks",
        "client_id",
        "generation",
        "index",
        "key",
        "log",
        "partition",
        "patience",
        "serve",
        "space",
        "timeout_ms",
        "topic",
        "version",
        "write",
    )

    def __init__(
        self,
        node: Node,
        topic: Topic,
        *,
        key: str | bytes,
        index: int,
        version: int,
        acks: int,
        timeout_ms: int,
        client_id: str | None,
        serve: Serve,
    ) -> None:
        partition = topic.partitions[index]
        self._node = node
        self._now_ms = node.now_ms
        self._append = partition.append
        self.space = node.space
        self.partition = partition
        self.log = partition.log
        self.generation = node.topics.generation
        """Of the topics when it was found; while it is theirs, nothing has changed."""
        self.topic = topic
        self.key = key
        self.index = index
        self.version = version
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.client_id = client_id
        self.patience = Patience(limited(timeout_ms) / 1000)
        """Of its requests that wait until they are durable."""
        self.serve = serve
        self.write = produced_writer(version, key, index)
        """The response to a batch that is where it should be."""

    def append(self, batch: memoryview) -> Appended:
        """Check and write; counts what it did. Raises what is wrong with the batch."""
        stats = self.topic.stats
        stats.produces += 1
        try:
            appended = self._append(batch, self._now_ms())
        except TierlogError:
            stats.produce_errors += 1
            raise
        base_offset, last_offset, _, is_duplicate = appended
        if not is_duplicate:
            stats.bytes_in += len(batch)
            stats.records_in += last_offset - base_offset + 1
        return appended

    def call(self, correlation_id: int, peer: Peer) -> Call:
        """The request as the long road would see it."""
        return Call(self._node, peer, ApiKey.PRODUCE, self.version, correlation_id, self.client_id)
