"""DescribeTopicPartitions, v0. Topics page by page, by name (KIP-966).

A page ends after so many partitions, and its cursor names the partition with which the next one
begins. An empty list asks for every topic; one that was asked for and is not known has its error.
Lists of eligible leader replicas are empty, never null (pitfall 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker import operations
from tierlog.broker.codes import code_of
from tierlog.broker.resources import topic_of
from tierlog.broker.turns import in_turns
from tierlog.errors import TierlogError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tierlog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.partition import Partition
    from tierlog.broker.topics import Topic

API: Final = ApiKey.DESCRIBE_TOPIC_PARTITIONS
VERSIONS: Final = (0, 0)

PAGE_PARTITIONS_MAX: Final = 2000
"""Kafka's own bound, whatever the client asks for."""


async def handle(
    request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        return invalid_cursor(request)
    room = max(1, min(request.response_partition_limit, PAGE_PARTITIONS_MAX))
    page: list[DescribeTopicPartitionsResponseTopic] = []
    async for name in in_turns(names_from(request, call)):
        if not room:
            return page_of(page, Cursor(topic_name=name, partition_index=0))
        try:
            topic = topic_of(name, call.node)
        except TierlogError as error:
            page.append(unknown(name, code_of(error)))
            continue
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        end = min(first + room, len(topic.partitions))
        page.append(described(topic, topic.partitions[first:end], call))
        room -= max(0, end - first)
        if end < len(topic.partitions):
            return page_of(page, Cursor(topic_name=name, partition_index=end))
    return page_of(page, None)


def names_from(request: DescribeTopicPartitionsRequest, call: Call) -> list[str]:
    """What is left to tell, from the cursor's topic on."""
    asked = {topic.name for topic in request.topics} or set(call.node.topics.by_name)
    first = request.cursor.topic_name if request.cursor is not None else ""
    return sorted(name for name in asked if name >= first)


def page_of(
    page: list[DescribeTopicPartitionsResponseTopic], following: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=page, next_cursor=following)


def invalid_cursor(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    # The answer has no place for an error but its topics.
    names = sorted({topic.name for topic in request.topics})
    return page_of([unknown(name, ErrorCode.INVALID_REQUEST) for name in names], None)


def described(
    topic: Topic, partitions: list[Partition], call: Call
) -> DescribeTopicPartitionsResponseTopic:
    node_id = call.node.node_id
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=0,
                partition_index=partition.index,
                leader_id=node_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=[node_id],
                isr_nodes=[node_id],
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=[],
            )
            for partition in partitions
        ],
        topic_authorized_operations=operations.ON_TOPIC,
    )


def unknown(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_id=NO_UUID, partitions=[]
    )
