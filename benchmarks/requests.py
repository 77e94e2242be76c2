"""Request frames for the load generator: whole, with size prefix.

Made by our own codecs. The C tools parse them with code of their own, so each checks the other.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tierlog.records.record import Record, encode_batch
from tierlog.types import Bytes, Offset, TimestampMs
from tierlog.wire.header import encode_request
from tierlog.wire.messages.api_versions import ApiVersionsRequest
from tierlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tierlog.wire.messages.heartbeat import HeartbeatRequest
from tierlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tierlog.wire.messages.metadata import MetadataRequest
from tierlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from tierlog.wire.schema import Request

TOPIC = "bench"
CLIENT_ID = "load"
HEARTBEAT_VERSION = 3
LIST_OFFSETS_VERSION = 5
METADATA_VERSION = 4
API_VERSIONS_VERSION = 2
LATEST = -1
"""As a timestamp: the end of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a produce request carries, and how it is driven."""

    name: str
    value_bytes: int
    records: int
    connections: int
    depth: int


SHAPES = (
    Shape(name="produce 64 KB", value_bytes=1024, records=63, connections=1, depth=5),
    Shape(name="produce 1 MB", value_bytes=1024, records=993, connections=1, depth=5),
    Shape(name="one record, 16 connections", value_bytes=100, records=1, connections=16, depth=1),
    Shape(name="one record, pipelined", value_bytes=100, records=1, connections=1, depth=64),
)


def value(length: int, number: int) -> bytes:
    """Bytes that do not compress well and do not change: a counter stretched by a multiplier."""
    word = (number + 1) * 0x9E3779B97F4A7C15
    words = -(-length // 8)
    parts = (((word * (i + 1)) & (2**64 - 1)).to_bytes(8, "big") for i in range(words))
    return b"".join(parts)[:length]


def batch(*, value_bytes: int, records: int) -> bytes:
    """One uncompressed batch with base offset 0, no keys, no headers.

    Its timestamps are present: a broker with retention would drop what looks a year old.
    """
    now_ms = TimestampMs(int(time.time() * 1000))
    made = [
        Record(Offset(number), now_ms, None, value(value_bytes, number))
        for number in range(records)
    ]
    return bytes(encode_batch(made))


def topic_id(topic: str) -> bytes:
    """The name's bytes, padded: enough for a benchmark that speaks of topics by id."""
    return topic.encode()[:16].ljust(16, b"\0")


def produce(
    records: Bytes, *, topic: str = TOPIC, partition: int = 0, acks: int = 1, version: int = 7
) -> bytes:
    """A Produce request, v3-v13, of one partition."""
    data = TopicProduceData(
        name=topic,
        topic_id=topic_id(topic),
        partition_data=[PartitionProduceData(index=partition, records=records)],
    )
    return framed(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data]), version)


def produce_to_all(records: Bytes, *, topic: str, partitions: int) -> bytes:
    """A Produce request, v7, acks=all, of the same batch to every partition."""
    data = TopicProduceData(
        name=topic,
        partition_data=[
            PartitionProduceData(index=index, records=records) for index in range(partitions)
        ],
    )
    return framed(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[data]), 7)


def fetch(
    *,
    bytes_max: int,
    offset: int = 0,
    topic: str = TOPIC,
    partition: int = 0,
    version: int = 11,
    wait_ms: int = 500,
) -> bytes:
    """A Fetch request, v4-v18, of one partition; it waits up to `wait_ms` for one byte."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    topics = [FetchTopic(topic=topic, topic_id=topic_id(topic), partitions=[asked])]
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=bytes_max, topics=topics)
    return framed(request, version)


def heartbeat() -> bytes:
    """Heartbeat: the smallest request that a broker answers."""
    request = HeartbeatRequest(group_id="group", generation_id=1, member_id="member")
    return framed(request, HEARTBEAT_VERSION)


def latest_offset(*, topic: str = TOPIC, partition: int = 0) -> bytes:
    """ListOffsets of one partition's end: a small request that every broker serves."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
    return framed(ListOffsetsRequest(replica_id=-1, topics=topics), LIST_OFFSETS_VERSION)


def all_topics() -> bytes:
    """Metadata of everything."""
    return framed(MetadataRequest(topics=None), METADATA_VERSION)


def api_versions() -> bytes:
    """What every client says first."""
    return framed(ApiVersionsRequest(), API_VERSIONS_VERSION)


def framed(request: "Request", version: int) -> bytes:
    return b"".join(encode_request(request, version, correlation_id=1, client_id=CLIENT_ID))
