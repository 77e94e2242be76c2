"""Short ways to ask a served node for the usual things, by name or by id as the version wants."""

from typing import Any

from tests.broker.support import Served
from tierlog.records.record import Record, decode_records, encode_batch
from tierlog.types import Bytes, Offset, ProducerEpoch, ProducerId, TimestampMs
from tierlog.wire.messages import create_topics as creates
from tierlog.wire.messages import delete_records as records
from tierlog.wire.messages import delete_topics as deletes
from tierlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tierlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tierlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tierlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NO_ID = bytes(16)


def batch_of(
    served: Served,
    *values: bytes | None,
    key: bytes | None = b"k",
    at_ms: int | None = None,
    producer: int | None = None,
    sequence: int = -1,
) -> bytes:
    """One batch; its records a millisecond apart."""
    first_ms = served.node.now_ms() if at_ms is None else at_ms
    made = [
        Record(Offset(number), TimestampMs(first_ms + number), key, value)
        for number, value in enumerate(values)
    ]
    if producer is None:
        return bytes(encode_batch(made))
    return bytes(
        encode_batch(
            made,
            producer_id=ProducerId(producer),
            producer_epoch=ProducerEpoch(0),
            base_sequence=sequence,
        )
    )


def produce_request(
    name: str, batch: Bytes, *, partition: int = 0, acks: int = -1, topic_id: bytes = NO_ID
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch)
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[topic])


async def produce(
    served: Served, name: str, batch: Bytes, *, version: int = 12, topic_id: bytes = NO_ID
) -> Any:
    """The answer for partition 0."""
    request = produce_request(name, batch, topic_id=topic_id)
    response = await served.call(request, version)
    return response.responses[0].partition_responses[0]


async def fetch_all(
    served: Served,
    *topics: FetchTopic,
    version: int = 12,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
) -> Any:
    session_id, session_epoch = session
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=list(topics),
    )
    return await served.call(request, version)


def fetch_topic(
    name: str,
    *partitions: int,
    offset: int = 0,
    epoch: int = -1,
    bytes_max: int = 1 << 20,
    topic_id: bytes = NO_ID,
) -> FetchTopic:
    asked = [
        FetchPartition(
            partition=one,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            partition_max_bytes=bytes_max,
        )
        for one in partitions or (0,)
    ]
    return FetchTopic(topic=name, topic_id=topic_id, partitions=asked)


async def fetch(served: Served, topic: FetchTopic, *, version: int = 12, **limits: int) -> Any:
    """The answer for the first partition."""
    response = await fetch_all(served, topic, version=version, **limits)  # type: ignore[arg-type]  # ints
    return response.responses[0].partitions[0]


def records_in(batches: Bytes | None) -> list[Record]:
    """Of whole batches; anything else does not decode."""
    data = bytes(batches or b"")
    found: list[Record] = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        found += decode_records(data[:size])
        data = data[size:]
    return found


def offsets_in(batches: Bytes | None) -> list[int]:
    return [record.offset for record in records_in(batches)]


async def offsets_at(served: Served, name: str, timestamps: dict[int, int]) -> Any:
    """Of many partitions, each at its time, by one request."""
    asked = [
        ListOffsetsPartition(partition_index=index, timestamp=timestamp, current_leader_epoch=-1)
        for index, timestamp in timestamps.items()
    ]
    topic = ListOffsetsTopic(name=name, partitions=asked)
    response = await served.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 11)
    return response.topics[0].partitions


async def offset_at(served: Served, name: str, timestamp: int, *, epoch: int = -1) -> Any:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    topic = ListOffsetsTopic(name=name, partitions=[asked])
    response = await served.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), 11)
    return response.topics[0].partitions[0]


def create_request(
    name: str, *, partitions: int = 1, replicas: int = 1, validate_only: bool = False
) -> creates.CreateTopicsRequest:
    wanted = creates.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[],
    )
    return creates.CreateTopicsRequest(
        topics=[wanted], timeout_ms=5000, validate_only=validate_only
    )


async def create(
    served: Served,
    name: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    validate_only: bool = False,
    version: int = 7,
) -> Any:
    """Its result."""
    request = create_request(
        name, partitions=partitions, replicas=replicas, validate_only=validate_only
    )
    return (await served.call(request, version)).topics[0]


async def delete(served: Served, name: str) -> None:
    request = deletes.DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)
    response = await served.call(request, 5)
    assert response.responses[0].error_code == 0


async def delete_records(served: Served, name: str, offset: int) -> Any:
    """The answer for partition 0, of records below `offset`."""
    asked = records.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = records.DeleteRecordsTopic(name=name, partitions=[asked])
    request = records.DeleteRecordsRequest(topics=[topic], timeout_ms=30_000)
    return (await served.call(request, 2)).topics[0].partitions[0]


async def metadata(
    served: Served, *names: str, version: int = 12, auto_create: bool = False
) -> Any:
    asked = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=auto_create)
    return await served.call(request, version)
