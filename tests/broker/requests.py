"""Requests with few words, for tests that are about something else."""

from tierlog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tierlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tierlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tierlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tierlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def metadata(*names: str) -> MetadataRequest:
    """For v4 and later; nothing is created."""
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
    )


def create(
    *names: str,
    partitions: int = 1,
    configs: dict[str, str] | None = None,
    timeout_ms: int = 30_000,
) -> CreateTopicsRequest:
    """For v4 and later."""
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=-1,
                assignments=[],
                configs=[
                    CreatableTopicConfig(name=key, value=value)
                    for key, value in (configs or {}).items()
                ],
            )
            for name in names
        ],
        timeout_ms=timeout_ms,
    )


def produce(
    topic: str, *batches: tuple[int, bytes | bytearray | None], acks: int = 1
) -> ProduceRequest:
    """For v3 to v12: partition and batch."""
    data = [PartitionProduceData(index=index, records=batch) for index, batch in batches]
    return ProduceRequest(
        acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def fetch(
    topic: str,
    *places: tuple[int, int],
    wait_ms: int = 0,
    current_leader_epoch: int = -1,
) -> FetchRequest:
    """For v4 to v12: partition and offset."""
    partitions = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=1 << 20,
            current_leader_epoch=current_leader_epoch,
        )
        for index, offset in places
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic=topic, partitions=partitions)],
    )


def list_offsets(topic: str, *indexes: int, timestamp: int = -1) -> ListOffsetsRequest:
    """For v1 and later."""
    partitions = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes
    ]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
    )
