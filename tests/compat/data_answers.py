"""How the recorder answers what carries data: Metadata, Produce, Fetch, ListOffsets, producer ids.

Each function takes the world, the request and its version, and returns the response, or None where
the protocol wants silence (acks=0).
"""

from tests.compat.world import LEADER_EPOCH, NODE_ID, Partition, Topic, World
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import add_partitions_to_txn as txn_partitions
from tierlog.wire.messages import fetch as fetches
from tierlog.wire.messages import list_offsets as offsets
from tierlog.wire.messages import metadata as meta
from tierlog.wire.messages import produce as produces
from tierlog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tierlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

TOPIC_ID_VERSION = 13
LEADER_EPOCH_FROM = 4
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LAST_TIERED = -1, -2, -3, -4, -5


def metadata(world: World, request: meta.MetadataRequest, version: int) -> meta.MetadataResponse:
    broker = meta.MetadataResponseBroker(node_id=NODE_ID, host=world.host, port=world.port)
    return meta.MetadataResponse(
        brokers=[broker],
        cluster_id="recorder",
        controller_id=NODE_ID,
        topics=_described_topics(world, request, version),
    )


def _described_topics(
    world: World, request: meta.MetadataRequest, version: int
) -> list[meta.MetadataResponseTopic]:
    everything = request.topics is None or (version == 0 and not request.topics)
    if everything or request.topics is None:
        return [_described(topic) for topic in world.topics.values()]
    return [_looked_up(world, asked, request) for asked in request.topics]


def _looked_up(
    world: World, asked: meta.MetadataRequestTopic, request: meta.MetadataRequest
) -> meta.MetadataResponseTopic:
    topic = world.find(name=asked.name or "", topic_id=asked.topic_id)
    if topic is None and asked.name and request.allow_auto_topic_creation:
        topic = world.create(asked.name, 1)
    if topic is not None:
        return _described(topic)
    # An unknown topic is listed with its error, never left out.
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if asked.name else ErrorCode.UNKNOWN_TOPIC_ID
    return meta.MetadataResponseTopic(
        error_code=missing, name=asked.name, topic_id=asked.topic_id, partitions=[]
    )


def _described(topic: Topic) -> meta.MetadataResponseTopic:
    return meta.MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        partitions=[
            meta.MetadataResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=NODE_ID,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=[NODE_ID],
                isr_nodes=[NODE_ID],
            )
            for index in range(len(topic.partitions))
        ],
    )


def produce(
    world: World, request: produces.ProduceRequest, version: int
) -> produces.ProduceResponse | None:
    answered = [_produced_topic(world, data, version) for data in request.topic_data]
    return None if request.acks == 0 else produces.ProduceResponse(responses=answered)


def _produced_topic(
    world: World, data: produces.TopicProduceData, version: int
) -> produces.TopicProduceResponse:
    topic = world.find(name=data.name, topic_id=data.topic_id)
    return produces.TopicProduceResponse(
        name=data.name,
        topic_id=data.topic_id,
        partition_responses=[
            _produced(world.partition(topic, one.index), one, version)
            for one in data.partition_data
        ],
    )


def _produced(
    partition: Partition | None, data: produces.PartitionProduceData, version: int
) -> produces.PartitionProduceResponse:
    error, base = _unknown(version), -1
    if partition is not None:
        assert data.records is not None
        error, base = ErrorCode.NONE, partition.append(data.records)
    return produces.PartitionProduceResponse(
        index=data.index, error_code=error, base_offset=base, log_start_offset=0
    )


def _unknown(version: int) -> ErrorCode:
    """Who asks by id must hear that the id is unknown: the topic may be back under another one."""
    if version >= TOPIC_ID_VERSION:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def has_data(world: World, request: fetches.FetchRequest) -> bool:
    """Whether a fetch can be answered at once: something to read, or something to complain of."""
    for asked in request.topics:
        topic = world.find(name=asked.topic, topic_id=asked.topic_id)
        for one in asked.partitions:
            partition = world.partition(topic, one.partition)
            if partition is None or one.fetch_offset != partition.end:
                return True
    return False


def fetch(world: World, request: fetches.FetchRequest, version: int) -> fetches.FetchResponse:
    # Session id 0: every fetch stays a full one.
    return fetches.FetchResponse(
        throttle_time_ms=0,
        session_id=0,
        responses=[
            fetches.FetchableTopicResponse(
                topic=asked.topic,
                topic_id=asked.topic_id,
                partitions=[
                    _fetched(
                        world.partition(
                            world.find(name=asked.topic, topic_id=asked.topic_id), one.partition
                        ),
                        one,
                        version,
                    )
                    for one in asked.partitions
                ],
            )
            for asked in request.topics
        ],
    )


def _fetched(
    partition: Partition | None, asked: fetches.FetchPartition, version: int
) -> fetches.PartitionData:
    error, end, records = _unknown(version), -1, b""
    if partition is not None:
        known = 0 <= asked.fetch_offset <= partition.end
        error = ErrorCode.NONE if known else ErrorCode.OFFSET_OUT_OF_RANGE
        end = partition.end
        records = partition.read(asked.fetch_offset) if known else b""
    return fetches.PartitionData(
        partition_index=asked.partition,
        error_code=error,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        aborted_transactions=[],
        records=records,
    )


def list_offsets(
    world: World, request: offsets.ListOffsetsRequest, version: int
) -> offsets.ListOffsetsResponse:
    return offsets.ListOffsetsResponse(
        topics=[
            offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _listed(
                        world.partition(world.find(name=topic.name), one.partition_index),
                        one,
                        version,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _listed(
    partition: Partition | None, asked: offsets.ListOffsetsPartition, version: int
) -> offsets.ListOffsetsPartitionResponse:
    if partition is None:
        return offsets.ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    timestamp, offset = _place(partition, asked.timestamp)
    return offsets.ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=0,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=LEADER_EPOCH if version >= LEADER_EPOCH_FROM else -1,
    )


def _place(partition: Partition, timestamp: int) -> tuple[int, int]:
    if timestamp == LATEST:
        return -1, partition.end
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, 0
    if timestamp == LAST_TIERED:
        return -1, -1
    if timestamp == MAX_TIMESTAMP:
        return -1, max(partition.end - 1, 0)
    return partition.offset_at(timestamp)


def init_producer_id(
    world: World, request: InitProducerIdRequest, version: int
) -> InitProducerIdResponse:
    del version
    known = request.producer_id >= 0
    return InitProducerIdResponse(
        throttle_time_ms=0,
        error_code=0,
        producer_id=request.producer_id if known else 1000 + world.next_id(),
        producer_epoch=request.producer_epoch + 1 if known else 0,
    )


def add_partitions_to_txn(
    world: World, request: txn_partitions.AddPartitionsToTxnRequest, version: int
) -> txn_partitions.AddPartitionsToTxnResponse:
    del world, version  # the recorder offers v0-v3, what clients send
    results = [
        txn_partitions.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                txn_partitions.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=0
                )
                for index in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return txn_partitions.AddPartitionsToTxnResponse(
        throttle_time_ms=0, results_by_topic_v3_and_below=results
    )


def end_txn(world: World, request: EndTxnRequest, version: int) -> EndTxnResponse:
    del world, request, version
    return EndTxnResponse(throttle_time_ms=0, error_code=0)
