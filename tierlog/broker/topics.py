"""The topics that this node knows: by name and by id.

Both ways in, because older requests carry names and newer ones ids, and a topic that was deleted
and made again has the same name and another id. A value is looked up on every request, so these are
plain dictionaries; only `catalogue.py` changes them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tierlog.broker.errors import InvalidTopicName, UnknownPartition, UnknownTopic, UnknownTopicId
from tierlog.broker.stats import TopicStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tierlog.broker.partition import Partition
    from tierlog.config import TopicConfig

NAME_CHARS_MAX: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")
INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class Topic:
    """One topic and its partitions, by index. All of them are led by this node; those that are
    late have no log yet."""

    __slots__ = ("config", "id", "name", "name_bytes", "overrides", "partitions", "stats")

    def __init__(
        self, name: str, topic_id: bytes, *, overrides: dict[str, str], config: TopicConfig
    ) -> None:
        self.name = name
        self.name_bytes = name.encode()
        self.id = topic_id
        self.overrides = overrides
        self.config = config
        self.partitions: list[Partition] = []
        self.stats = TopicStats()

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL

    @property
    def opened(self) -> list[Partition]:
        """Those that have their log: all, but for those that are late."""
        return [one for one in self.partitions if one.late is None]

    def partition(self, index: int) -> Partition:
        """Raises `UnknownPartition`, and `PartitionLate`."""
        if 0 <= index < len(self.partitions):
            found = self.partitions[index]
            if found.late is not None:
                raise found.late
            return found
        raise UnknownPartition(self.name, index)

    def configure(self, overrides: dict[str, str], config: TopicConfig) -> None:
        self.overrides = overrides
        self.config = config
        for partition in self.partitions:
            partition.configure(config)


class Topics:
    def __init__(self) -> None:
        self.generation = 0
        """Rises with every change: whoever remembers a topic must look again."""
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[bytes, Topic] = {}
        self.on_removed: list[Callable[[Topic], None]] = []
        """Whoever keeps something by topic hears that one is gone."""
        self.departed = TopicStats()
        """What topics that are gone had counted: totals of the node never go back."""

    def __iter__(self) -> Iterator[Topic]:
        """By name, so that answers do not depend on history."""
        return iter([self.by_name[name] for name in sorted(self.by_name)])

    def __len__(self) -> int:
        return len(self.by_name)

    def named(self, name: str) -> Topic:
        """Raises `UnknownTopic`."""
        topic = self.by_name.get(name)
        if topic is None:
            raise UnknownTopic(name)
        return topic

    def with_id(self, topic_id: bytes) -> Topic:
        """Raises `UnknownTopicId`."""
        topic = self.by_id.get(topic_id)
        if topic is None:
            raise UnknownTopicId(topic_id)
        return topic

    def find(self, key: str | bytes) -> Topic:
        """By name, or by id where the request carries ids."""
        return self.named(key) if isinstance(key, str) else self.with_id(key)

    def add(self, topic: Topic) -> None:
        self.generation += 1
        self.by_name[topic.name] = topic
        self.by_id[topic.id] = topic

    def remove(self, topic: Topic) -> None:
        self.generation += 1
        if self.by_id.pop(topic.id, None) is not None:
            self.departed.add(topic.stats)
        if self.by_name.get(topic.name) is topic:
            del self.by_name[topic.name]
        for told in self.on_removed:
            told(topic)

    def configure(self, topic: Topic, overrides: dict[str, str], config: TopicConfig) -> None:
        self.generation += 1
        topic.configure(overrides, config)

    def produced_bytes(self) -> int:
        """Since the node started; topics that are gone included."""
        return self.departed.bytes_in + sum(one.stats.bytes_in for one in self.by_name.values())

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.by_name.values())


def check_name(name: str) -> None:
    """Kafka's rule for the names of topics."""
    if name in (".", ".."):
        raise InvalidTopicName(f"a topic cannot be called {name!r}")
    if not 0 < len(name) <= NAME_CHARS_MAX:
        raise InvalidTopicName(
            f"a topic name has 1 to {NAME_CHARS_MAX} characters, this one {len(name)}"
        )
    if not _LEGAL.match(name):
        raise InvalidTopicName(
            f"topic name {name!r:.300} holds characters other than letters of ASCII, digits, "
            "'.', '_' and '-'"
        )


def collides_with(name: str, names: dict[str, Topic]) -> str | None:
    """A topic whose metrics could not be told from this one's: '.' and '_' look the same there."""
    if "." not in name and "_" not in name:
        return None
    wanted = name.replace(".", "_")
    return next(
        (other for other in names if other != name and other.replace(".", "_") == wanted), None
    )
