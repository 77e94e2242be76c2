"""How the numbers of the cold tier are found: those of the store, the uploads and the fetch proxy.

A node without a store has zeros, and no lines for topics. What a topic has waiting is as of the
tier's last look, a second ago at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tierlog.http.readings import once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tierlog.broker.tiering import Tiering
    from tierlog.broker.topics import Topic
    from tierlog.cold.head import Head
    from tierlog.cold.scrubber import Scrubber
    from tierlog.cold.tier import ColdTier
    from tierlog.cold.tieredpartition import TieredPartition
    from tierlog.fetchproxy.clients import Account
    from tierlog.fetchproxy.proxy import FetchProxy
    from tierlog.http.readings import Read, Reading
    from tierlog.http.view import NodeView
    from tierlog.objectstore.counted import KindStats
    from tierlog.table.settings import TableStats


def by_request(read: Callable[[KindStats], float]) -> Read:
    """By kind of request to the store."""

    def readings(view: NodeView) -> Iterable[Reading]:
        stats = view.store_stats
        return [] if stats is None else [((kind,), read(one)) for kind, one in stats.kinds.items()]

    return readings


def of_tier(read: Callable[[ColdTier], float]) -> Read:
    return once(lambda view: 0 if view.tiering is None else read(view.tiering.tier))


def of_scrubber(read: Callable[[Scrubber], float]) -> Read:
    return once(lambda view: 0 if view.tiering is None else read(view.tiering.scrubber))


def of_tables(read: Callable[[TableStats], float]) -> Read:
    return once(lambda view: 0 if view.tiering is None else read(view.tiering.tables.stats))


def of_proxy(read: Callable[[FetchProxy], float]) -> Read:
    return once(lambda view: 0 if view.tiering is None else read(view.tiering.proxy))


def by_tiered_topic(read: Callable[[Sequence[TieredPartition]], float]) -> Read:
    def readings(view: NodeView) -> Iterator[Reading]:
        tiering = view.tiering
        if tiering is None:
            return
        for topic in view.node.topics:
            if tiered := partitions_of(tiering, topic):
                yield (topic.name,), read(tiered)

    return readings


def partitions_of(tiering: Tiering, topic: Topic) -> list[TieredPartition]:
    """Those of its partitions that are tiered: all or none, but for one moment."""
    known, topic_id = tiering.tier.partitions, topic.id.hex()
    found = (known.get((topic_id, partition.index)) for partition in topic.partitions)
    return [one for one in found if one is not None]


def cold_bytes(tiered: Sequence[TieredPartition]) -> int:
    return sum(one.prefix.head.bytes for one in tiered if one.prefix.head is not None)


def cold_segments(tiered: Sequence[TieredPartition]) -> int:
    return sum(segments_of(one.prefix.head) for one in tiered if one.prefix.head is not None)


def segments_of(head: Head) -> int:
    """Listed in the manifest, pages included."""
    pages = (*head.leaves, *head.indexes)
    return len(head.entries) + sum(page.segments for page in pages)


def failing_count(tier: ColdTier) -> int:
    return sum(one.status.last_error is not None for one in tier.partitions.values())


def by_client(read: Callable[[FetchProxy, Account], float]) -> Read:
    """By client id and group, of which there are a hundred and one at most."""

    def readings(view: NodeView) -> Iterable[Reading]:
        if view.tiering is None:
            return []
        proxy = view.tiering.proxy
        return [(who, read(proxy, account)) for who, account in proxy.clients.items()]

    return readings


def fenced_count(tier: ColdTier) -> int:
    return sum(one.prefix.fence is not None for one in tier.partitions.values())


def late_count(view: NodeView) -> int:
    return sum(one.late is not None for topic in view.node.topics for one in topic.partitions)


class Backlog(NamedTuple):
    """What waits for its upload, as of the tier's last look."""

    bytes: int
    segments: int
    lag_ms: int


def backlog_of(tier: ColdTier) -> Backlog:
    found = [one.status for one in tier.partitions.values()]
    return Backlog(
        bytes=sum(one.backlog_bytes for one in found),
        segments=sum(one.backlog_segments for one in found),
        lag_ms=max((one.lag_ms for one in found), default=0),
    )


def cold_gets(view: NodeView) -> Iterable[Reading]:
    if view.tiering is None:
        return []
    stats = view.tiering.proxy.stats
    gets = {"chunk": stats.chunk_gets, "lead": stats.lead_gets, "index": stats.index_gets}
    return [((what,), count) for what, count in gets.items()]
