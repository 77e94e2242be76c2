"""What the client believes about the cluster: nodes, topics, leaders. Pure; may be out of date."""

from dataclasses import dataclass, field

from tierlog.client.errors import BrokerError, known_code
from tierlog.client.pool import Address
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from tierlog.wire.schema import NO_UUID

NOBODY = -1

LEADER_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""After one of these the picture of the topic is taken anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    name: str
    id: bytes
    is_internal: bool
    partitions: dict[int, PartitionInfo]
    asked_at: float
    """Seconds of the monotonic clock."""

    @property
    def has_id(self) -> bool:
        return self.id != NO_UUID

    def leader_of(self, partition: int) -> PartitionInfo:
        """The partition, if it is there and led; else the error a broker would give."""
        info = self.partitions.get(partition)
        if info is None:
            sentence = f"{self.name} has no partition {partition}"
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, sentence)
        if info.leader == NOBODY:
            sentence = f"{self.name}-{partition} has no leader"
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, sentence)
        return info


@dataclass(slots=True)
class Cluster:
    """The picture, and the changes to it."""

    id: str | None = None
    controller: int = NOBODY
    nodes: dict[int, Address] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)
    """Topics whose picture proved wrong. Ids and counts serve until a new one is taken."""

    def take(self, answer: MetadataResponse, *, now: float) -> None:
        """Nodes as answered; topics as answered, others as they were."""
        self.id = answer.cluster_id
        self.controller = answer.controller_id
        self.nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            if topic.name is None:
                continue
            self.doubted.discard(topic.name)
            if topic.error_code:
                self.topics.pop(topic.name, None)
            else:
                self.topics[topic.name] = _topic(topic, topic.name, now)

    def doubt(self, topic: str) -> None:
        self.doubted.add(topic)


def _topic(answer: MetadataResponseTopic, name: str, now: float) -> TopicInfo:
    return TopicInfo(
        name=name,
        id=answer.topic_id,
        is_internal=answer.is_internal,
        asked_at=now,
        partitions={
            each.partition_index: PartitionInfo(
                index=each.partition_index,
                leader=each.leader_id,
                leader_epoch=each.leader_epoch,
                replicas=tuple(each.replica_nodes),
                in_sync=tuple(each.isr_nodes),
                error=known_code(each.error_code),
            )
            for each in answer.partitions
        },
    )
