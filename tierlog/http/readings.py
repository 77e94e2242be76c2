"""How the numbers of a family are found: once for the node, or by topic, API or reason.

Each function makes a `Read`, which is called at every scrape. Lists are taken as they are at that
moment; a topic that goes away meanwhile is told once more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from tierlog.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tierlog.broker.listener import Listener
    from tierlog.broker.stats import ApiStats, Histogram
    from tierlog.broker.topics import Topic
    from tierlog.http.view import NodeView

Reading: TypeAlias = "tuple[tuple[str, ...], float | Histogram]"
"""Values of the labels, and the number."""
Read: TypeAlias = "Callable[[NodeView], Iterable[Reading]]"


def once(read: Callable[[NodeView], float | Histogram]) -> Read:
    """One number for the node."""
    return lambda view: [((), read(view))]


def by_topic(read: Callable[[Topic], float]) -> Read:
    def readings(view: NodeView) -> Iterator[Reading]:
        return (((topic.name,), read(topic)) for topic in view.node.topics)

    return readings


def by_api(read: Callable[[ApiStats], float | Histogram]) -> Read:
    def readings(view: NodeView) -> Iterator[Reading]:
        apis = sorted(view.node.stats.apis.items())
        return (((api_name(key),), read(stats)) for key, stats in apis)

    return readings


def listening(read: Callable[[Listener], float]) -> Read:
    """One number of the connections; 0 while nobody listens."""
    return once(lambda view: 0 if view.listener is None else read(view.listener))


def by_reason(**reads: Callable[[Listener], float]) -> Read:
    def readings(view: NodeView) -> Iterable[Reading]:
        listener = view.listener
        return [
            ((reason,), 0 if listener is None else read(listener)) for reason, read in reads.items()
        ]

    return readings


def topic_total(name: str) -> Read:
    """Over all topics, those that are gone included: a total never goes back."""

    def total(view: NodeView) -> float:
        topics = view.node.topics
        present = sum(getattr(topic.stats, name) for topic in topics.by_name.values())
        return float(present + getattr(topics.departed, name))

    return once(total)


def log_bytes(topic: Topic) -> int:
    return sum(partition.log.size_bytes for partition in topic.opened)


def segment_count(topic: Topic) -> int:
    return sum(len(partition.log.segments) for partition in topic.opened)


def refusals(view: NodeView) -> Iterable[Reading]:
    counts = view.node.stats.produce_refusals
    return sorted(((snake(kind.__name__),), count) for kind, count in counts.items())


def api_name(key: int) -> str:
    """As the protocol's own documents write it: `ListOffsets`."""
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
