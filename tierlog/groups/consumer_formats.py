"""The records of a consumer group (KIP-848) in `__consumer_offsets`: kinds 3 to 8, as Kafka 4 has
them.

    3 the group's epoch          6 the epoch of the target assignment
    4 (older nodes only)         7 what a member should have in the end
    5 what a member says         8 what a member has now, and has to give back

Keys are of version 0 behind their kind; values are flexible. Kind 4, the partitions of subscribed
topics, is read and not written: since Kafka 4.1 a hash in kind 3 does its work (KIP-1101).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tierlog.wire.schema import (
    Message,
    Struct,
    array,
    bytes_,
    int8,
    int32,
    int64,
    string,
    struct,
    uuid,
)

VALUE_VERSION: Final = 0


class EpochKey(Message, versions="3"):
    group: str = string()


class EpochValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    metadata_hash: int = int64(tag=0, default=0)
    """Of the subscribed topics: another one begins another epoch."""


class PartitionsKey(Message, versions="4"):
    group: str = string()


class PartitionsValue(Message, versions="0", flexible="0+"):
    topics: list[KnownTopic] = array()


class KnownTopic(Struct):
    topic_id: bytes = uuid()
    name: str = string()
    partition_count: int = int32()
    partitions: list[KnownPartition] = array()


class KnownPartition(Struct):
    partition: int = int32()
    racks: list[str] = array(string)


class SubscriberKey(Message, versions="5"):
    group: str = string()
    member_id: str = string()


class SubscriberValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    topics: list[str] = array(string)
    regex: str | None = string(nullable=True)
    rebalance_timeout_ms: int = int32()
    assignor: str | None = string(nullable=True)
    classic: ClassicSide | None = struct(tag=0, default=None)
    """Of members that speak the classic protocol in a consumer group: none here."""


class ClassicSide(Struct):
    presence: int = int8(default=1)
    """Kafka's struct may be null, and says by its first byte that it is not."""
    session_timeout_ms: int = int32()
    protocols: list[ClassicProtocol] = array()


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = bytes_()


class TargetEpochKey(Message, versions="6"):
    group: str = string()


class TargetEpochValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    made_ms: int = int64(tag=0, default=0)
    """When the assignment was made (KIP-1263)."""


class TargetKey(Message, versions="7"):
    group: str = string()
    member_id: str = string()


class TargetValue(Message, versions="0", flexible="0+"):
    topics: list[TargetTopic] = array()


class TargetTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class CurrentKey(Message, versions="8"):
    group: str = string()
    member_id: str = string()


class CurrentValue(Message, versions="0", flexible="0+"):
    epoch: int = int32()
    previous_epoch: int = int32()
    state: int = int8()
    assigned: list[CurrentTopic] = array()
    revoking: list[CurrentTopic] = array()


class CurrentTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, tag=0, nullable=True, default=None)
    """When each came to the member, by the target's epoch (KIP-1251)."""


ConsumerKey: TypeAlias = (
    EpochKey | PartitionsKey | SubscriberKey | TargetEpochKey | TargetKey | CurrentKey
)
ConsumerValue: TypeAlias = (
    EpochValue | PartitionsValue | SubscriberValue | TargetEpochValue | TargetValue | CurrentValue
)
CONSUMER_KINDS: Final[dict[int, tuple[type[ConsumerKey], type[ConsumerValue]]]] = {
    3: (EpochKey, EpochValue),
    4: (PartitionsKey, PartitionsValue),
    5: (SubscriberKey, SubscriberValue),
    6: (TargetEpochKey, TargetEpochValue),
    7: (TargetKey, TargetValue),
    8: (CurrentKey, CurrentValue),
}
