"""What the bucket knows of the cluster: `format.json` and `cluster/STATE`, as values.

STATE is what a restore starts from: the topics with their ids, partition counts and overrides, the
topics that are deleted and not yet swept, and the lives of the cluster. Each restore from the
bucket begins a new life (incarnation); the last in the lineage is the one that may write.

STATE is gzip-compressed canonical JSON, replaced by compare-and-swap: `version` rises, `nonce`
tells whose write it was. Unknown members and a newer `format` are refused: whoever replaced the
object would drop what it does not know.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tierlog.cold import canonical
from tierlog.cold.errors import NewerFormat
from tierlog.cold.fields import Fields
from tierlog.cold.head import Incarnation
from tierlog.cold.layout import FORMAT_JSON, STATE
from tierlog.types import Bytes

FORMAT = 1
STATE_BYTES_MAX = 256 << 20
"""Unpacked; a million topics of 200 bytes."""
LIVES_MAX = 100_000
TOPICS_MAX = 1_000_000
PARTITIONS_MAX = 1_000_000
CONFIGS_MAX = 1_000
VALUE_CHARACTERS_MAX = 1 << 20

_TOPIC_ID = re.compile("[0-9a-f]{32}")


class Life(NamedTuple):
    """One incarnation of the cluster and how it began."""

    incarnation: Incarnation
    begun_ms: int
    by: str
    """"serve" for the first, "restore" for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    name: str
    partitions: int
    configs: dict[str, str] = field(default_factory=dict)
    """Overrides only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """Its objects are still to be removed; nobody restores it."""

    name: str
    partitions: int
    deleted_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    version: int
    nonce: str
    cluster_id: str
    lineage: tuple[Life, ...]
    """Oldest first, never empty."""
    topics: Mapping[str, TopicRecord] = field(default_factory=dict)
    """By id: 32 hexadecimal digits."""
    deleted: Mapping[str, DeletedTopic] = field(default_factory=dict)

    @property
    def incarnation(self) -> Incarnation:
        return self.lineage[-1].incarnation

    def is_behind(self, known: "ClusterState") -> bool:
        """Whether it is an earlier one than `known`. One with a life that `known` does not have is
        somebody else's, whatever its version: the cluster was restored."""
        lives, knowns = ([life.incarnation for life in one.lineage] for one in (self, known))
        if lives == knowns:
            return self.version < known.version
        return lives == knowns[: len(lives)]

    @property
    def ancestors(self) -> tuple[Incarnation, ...]:
        return tuple(life.incarnation for life in self.lineage[:-1])


def encode_state(state: ClusterState) -> bytes:
    return canonical.compress(canonical.to_bytes(_state_value(state)))


def _state_value(state: ClusterState) -> dict[str, object]:
    return {
        "format": FORMAT,
        "kind": "state",
        "version": state.version,
        "nonce": state.nonce,
        "cluster_id": state.cluster_id,
        "lineage": [_life_value(life) for life in state.lineage],
        "topics": [_topic_value(key, state.topics[key]) for key in sorted(state.topics)],
        "deleted": [_deleted_value(key, state.deleted[key]) for key in sorted(state.deleted)],
    }


def decode_state(data: Bytes) -> ClusterState:
    """Raises `ColdCorrupt` and `NewerFormat`: the bucket is input."""
    fields = _opened(canonical.decompress(data, key=STATE, size_max=STATE_BYTES_MAX), STATE)
    state = ClusterState(
        version=fields.integer("version"),
        nonce=fields.text("nonce"),
        cluster_id=fields.text("cluster_id"),
        lineage=tuple(_read_life(one) for one in fields.inners("lineage", LIVES_MAX)),
        topics=dict(_read_topic(one) for one in fields.inners("topics", TOPICS_MAX)),
        deleted=dict(_read_deleted(one) for one in fields.inners("deleted", TOPICS_MAX)),
    )
    if fields.text("kind") != "state":
        fields.refuse("kind", "is not state")
    numbers = [life.incarnation.number for life in state.lineage]
    if not numbers or numbers != sorted(set(numbers)):
        fields.refuse("lineage", "is empty, or its lives are not in order")
    fields.close()
    return state


def encode_format(cluster_id: str) -> bytes:
    """`format.json`: plain JSON, since it is the first thing that anybody opens."""
    return canonical.to_bytes({"format": FORMAT, "cluster_id": cluster_id}) + b"\n"


def decode_format(data: Bytes) -> str:
    """The cluster's id."""
    fields = _opened(data, FORMAT_JSON)
    cluster_id = fields.text("cluster_id")
    fields.close()
    return cluster_id


def _opened(data: Bytes, key: str) -> Fields:
    fields = Fields(canonical.from_bytes(data, key=key), key=key, place=key)
    found = fields.integer("format", 1)
    if found > FORMAT:
        raise NewerFormat(key, found=found, known=FORMAT)
    return fields


def _life_value(life: Life) -> dict[str, object]:
    return {**life.incarnation._asdict(), "begun_ms": life.begun_ms, "by": life.by}


def _read_life(fields: Fields) -> Life:
    incarnation = Incarnation(fields.integer("number", 1), fields.text("id"))
    life = Life(incarnation, fields.integer("begun_ms"), fields.text("by"))
    fields.close()
    return life


def _topic_value(topic_id: str, topic: TopicRecord) -> dict[str, object]:
    configs = [{"name": name, "value": topic.configs[name]} for name in sorted(topic.configs)]
    return {
        "id": topic_id,
        "name": topic.name,
        "partitions": topic.partitions,
        "configs": configs,
    }


def _read_topic(fields: Fields) -> tuple[str, TopicRecord]:
    topic = TopicRecord(
        name=fields.text("name"),
        partitions=fields.integer("partitions", 1, PARTITIONS_MAX),
        configs=dict(_read_config(one) for one in fields.inners("configs", CONFIGS_MAX)),
    )
    return _read_id(fields), topic


def _read_config(fields: Fields) -> tuple[str, str]:
    pair = fields.text("name"), fields.text("value", VALUE_CHARACTERS_MAX)
    fields.close()
    return pair


def _deleted_value(topic_id: str, topic: DeletedTopic) -> dict[str, object]:
    return {
        "id": topic_id,
        "name": topic.name,
        "partitions": topic.partitions,
        "deleted_ms": topic.deleted_ms,
    }


def _read_deleted(fields: Fields) -> tuple[str, DeletedTopic]:
    topic = DeletedTopic(
        name=fields.text("name"),
        partitions=fields.integer("partitions", 1, PARTITIONS_MAX),
        deleted_ms=fields.integer("deleted_ms"),
    )
    return _read_id(fields), topic


def is_topic_id(text: str) -> bool:
    return _TOPIC_ID.fullmatch(text) is not None


def _read_id(fields: Fields) -> str:
    """The last field of a topic. It becomes part of keys and paths, so nothing else may pass."""
    topic_id = fields.text("id")
    if not is_topic_id(topic_id):
        fields.refuse("id", "is not 32 hexadecimal digits")
    fields.close()
    return topic_id
