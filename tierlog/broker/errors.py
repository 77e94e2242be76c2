"""What can be wrong with a request to this node, one class per answer that its sender needs.

Errors of the rooms below (records, hot, config) pass through as they are; `codes.py` turns all of
them into Kafka's codes.
"""

from collections.abc import Sequence
from typing import ClassVar

from tierlog.errors import Kind, TierlogError


class BrokerError(TierlogError):
    """Root of this room. Each names its code in `codes.py`."""


class UnknownTopic(BrokerError):
    """This node knows no topic of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no topic {name!r}")


class UnknownTopicId(BrokerError):
    """This node knows no topic of that id: it was deleted, perhaps made again under its name."""

    def __init__(self, topic_id: bytes) -> None:
        super().__init__(f"there is no topic with the id {topic_id.hex()}")


class UnknownPartition(BrokerError):
    def __init__(self, name: str, index: int) -> None:
        super().__init__(f"topic {name!r} has no partition {index}")


class TopicExists(BrokerError):
    def __init__(self, name: str) -> None:
        super().__init__(f"there is a topic {name!r} already")


class InvalidTopicName(BrokerError):
    """The name breaks Kafka's rules for topic names."""


class InternalTopic(InvalidTopicName):
    """The node keeps its own state there."""

    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name!r} is the node's own: clients may read it, and no more")


class InvalidPartitions(BrokerError):
    """A partition count that cannot be."""


class InvalidReplicationFactor(BrokerError):
    """More replicas than there are nodes, or none."""


class InvalidAssignment(BrokerError):
    """A manual assignment of replicas that cannot be."""


class InvalidRequest(BrokerError):
    """The request contradicts itself."""


class TopicDeletionDisabled(BrokerError):
    """`delete.topic.enable` is false."""


class PolicyViolation(BrokerError):
    """The topic keeps its records, whoever asks."""


class Contended(BrokerError):
    """Others kept changing the same topic. The request may be sent again."""

    kind: ClassVar[Kind] = Kind.RETRY

    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name!r} is being changed by others at the moment; try again")


class FencedLeaderEpoch(BrokerError):
    """The client knows an older leader epoch than this node."""

    kind: ClassVar[Kind] = Kind.RETRY


class UnknownLeaderEpoch(BrokerError):
    """The client knows a newer leader epoch than this node."""

    kind: ClassVar[Kind] = Kind.RETRY


class NotLeader(BrokerError):
    """The request is for another replica."""

    kind: ClassVar[Kind] = Kind.RETRY


class PartitionLate(BrokerError):
    """The partition is not open yet: its log is gone, and the store has not said where it ends."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE

    def __init__(self, topic: str, index: int, why: str) -> None:
        super().__init__(
            f"{topic}-{index} is not open: its log is gone, and it is begun again where the store "
            f"says that it ended, once it does: {why}"
        )


class NotEnoughReplicas(BrokerError):
    """Fewer replicas are in sync than `min.insync.replicas` asks for."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class InvalidAcks(BrokerError):
    def __init__(self, acks: int) -> None:
        super().__init__(f"acks is {acks}; it must be 0, 1 or -1 (all)")


class OutOfSpace(BrokerError):
    """The disk is nearly full, so producing is refused; what is there stays readable."""

    kind: ClassVar[Kind] = Kind.UNAVAILABLE


class TransactionsNotServed(BrokerError):
    """A transactional batch or producer came, and this node has no transactions yet."""


class CodecNotAllowed(BrokerError):
    """zstd needs Produce v7 or later (KIP-110)."""


class RecordsRefused(BrokerError):
    """Some records of a batch break a rule of the topic. `records` are (index, sentence)."""

    def __init__(self, sentence: str, records: list[tuple[int, str]]) -> None:
        super().__init__(sentence)
        self.records = records


class TooManyRecords(BrokerError):
    """A batch that must be taken apart on arrival has too many records; clients split it."""

    def __init__(self, count: int, count_max: int) -> None:
        super().__init__(
            f"a batch of {count} records; at most {count_max} are taken where keys or timestamps "
            "have to be looked up in it"
        )


class TooMuchAtOnce(BrokerError):
    """This part of the request is left for the next one, so that others have their turn."""

    kind: ClassVar[Kind] = Kind.RETRY


class RequestTimedOut(BrokerError):
    """What was waited for did not happen within the request's time. It may still happen."""

    kind: ClassVar[Kind] = Kind.RETRY


class ReadOnly(BrokerError):
    """Somebody else owns the bucket, or the partition in it, another life of the cluster or a copy
    of this node: what was accepted here would be lost to it."""

    kind: ClassVar[Kind] = Kind.FENCED


class ClusterInStore(BrokerError):
    """The data directory is new, and the store is not."""

    def __init__(self, cluster_ids: Sequence[str]) -> None:
        super().__init__(
            f"the store holds a cluster already ({', '.join(cluster_ids)}), and the data directory "
            "is empty: bring the cluster back with 'tierlog restore', name another --store, or "
            "begin another cluster in the same store with --new-cluster"
        )


class RestoreUnfinished(BrokerError):
    """The data directory is half made."""

    def __init__(self, data: str) -> None:
        super().__init__(
            f"a restore into {data} was begun and has not ended: run 'tierlog restore' again, it "
            "goes on where it stopped"
        )
