"""What the cluster remembers of itself: the values in the metastore.

Keys, and the JSON behind them:
    /cluster                    {"id", "incarnation", "incarnation_id", "in_store"}
    /topics/{id}                {"name", "configs"}
    /topic-names/{name}         the topic's id: two topics cannot take one name
    /partitions/{id}/{index}    {"replicas", "isr", "leader", "leader_epoch"}
    /deleted/{id}               {"name", "partitions"}: its logs are still to be removed
    /producer-ids               {"incarnation", "next"}
    /brokers/{node}             {"defaults"}: what topics started from when it last started

Ids are 32 hexadecimal digits. Unknown members of a value are kept out, not refused: a newer node
may have written them.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Final

CLUSTER: Final = "/cluster"
TOPICS: Final = "/topics/"
TOPIC_NAMES: Final = "/topic-names/"
PARTITIONS: Final = "/partitions/"
DELETED: Final = "/deleted/"
PRODUCER_IDS: Final = "/producer-ids"
BROKERS: Final = "/brokers/"

FIRST_INCARNATION = 1
DASH = 62
"""The six bits that base64 writes as `-`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    name: str
    configs: dict[str, str] = field(default_factory=dict)
    """Overrides only; everything else follows the node's defaults."""

    def to_bytes(self) -> bytes:
        return to_json({"name": self.name, "configs": self.configs})

    @classmethod
    def from_bytes(cls, value: bytes) -> TopicState:
        found = json.loads(value)
        return cls(name=found["name"], configs=found["configs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int

    def to_bytes(self) -> bytes:
        return to_json(
            {
                "replicas": self.replicas,
                "isr": self.isr,
                "leader": self.leader,
                "leader_epoch": self.leader_epoch,
            }
        )

    @classmethod
    def from_bytes(cls, value: bytes) -> PartitionState:
        found = json.loads(value)
        return cls(
            replicas=tuple(found["replicas"]),
            isr=tuple(found["isr"]),
            leader=found["leader"],
            leader_epoch=found["leader_epoch"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedState:
    name: str
    partitions: int

    def to_bytes(self) -> bytes:
        return to_json({"name": self.name, "partitions": self.partitions})

    @classmethod
    def from_bytes(cls, value: bytes) -> DeletedState:
        found = json.loads(value)
        return cls(name=found["name"], partitions=found["partitions"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    id: str
    incarnation: int
    """Which life of the cluster: a restore from the bucket begins the next."""
    incarnation_id: str
    """Random for every life but the first, which has the cluster's own id."""
    in_store: bool = False
    """Whether it was ever founded in an object store: then it is not founded in another."""

    @classmethod
    def first(cls, cluster_id: str) -> ClusterState:
        return cls(id=cluster_id, incarnation=FIRST_INCARNATION, incarnation_id=cluster_id)

    def to_bytes(self) -> bytes:
        return to_json(
            {
                "id": self.id,
                "incarnation": self.incarnation,
                "incarnation_id": self.incarnation_id,
                "in_store": self.in_store,
            }
        )

    @classmethod
    def from_bytes(cls, value: bytes) -> ClusterState:
        found = json.loads(value)
        # Written before there was a bucket, it has nothing but the id.
        return cls(
            id=found["id"],
            incarnation=found.get("incarnation", FIRST_INCARNATION),
            incarnation_id=found.get("incarnation_id", found["id"]),
            in_store=found.get("in_store", False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsState:
    incarnation: int = FIRST_INCARNATION
    next: int = 0
    """The first number that no block holds yet."""

    def to_bytes(self) -> bytes:
        return to_json({"incarnation": self.incarnation, "next": self.next})

    @classmethod
    def from_bytes(cls, value: bytes) -> ProducerIdsState:
        found = json.loads(value)
        return cls(incarnation=found["incarnation"], next=found["next"])


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def topic_key(topic_id: bytes) -> str:
    return TOPICS + topic_id.hex()


def name_key(name: str) -> str:
    return TOPIC_NAMES + name


def partition_key(topic_id: bytes, index: int) -> str:
    return f"{PARTITIONS}{topic_id.hex()}/{index}"


def broker_key(node_id: int) -> str:
    return f"{BROKERS}{node_id}"


def deleted_key(topic_id: bytes) -> str:
    return DELETED + topic_id.hex()


def parse_partition_key(key: str) -> tuple[bytes, int]:
    topic_id, _, index = key.removeprefix(PARTITIONS).partition("/")
    return bytes.fromhex(topic_id), int(index)


def log_name(topic_id: bytes, index: int) -> str:
    """The partition's directory. It names the id: a topic made again must not find old records."""
    return f"{topic_id.hex()}-{index}"


def cluster_id_text(random: bytes) -> str:
    """Sixteen bytes as Kafka writes ids: base64 for addresses, without padding.

    Never with `-` in front, which a command line takes for an option: its first bit is cleared.
    """
    first = random[0] & 0x7F if random[0] >> 2 == DASH else random[0]
    return base64.urlsafe_b64encode(bytes([first]) + random[1:]).decode().rstrip("=")
