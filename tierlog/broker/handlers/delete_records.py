"""DeleteRecords, v0-v2. Moves the log start offset of partitions up; -1 stands for the high
watermark.

The low watermark is answered once it is durable: records that somebody was told are gone do not
come back after a crash. An offset at or below the log start is no error; there is nothing to do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of
from tierlog.broker.deadline import Deadline
from tierlog.broker.errors import InvalidTopicName, PolicyViolation
from tierlog.errors import TierlogError
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.types import Offset
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.partition import Partition
    from tierlog.broker.topics import Topic

API: Final = ApiKey.DELETE_RECORDS
VERSIONS: Final = (0, 2)
TO_HIGH_WATERMARK: Final = -1
NO_OFFSET: Final = -1


async def handle(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    deadline = Deadline(call.node.env, request.timeout_ms)
    # All at once: one round of syncs makes every partition's trim durable.
    topics = await asyncio.gather(*(of_topic(topic, call, deadline) for topic in request.topics))
    return DeleteRecordsResponse(throttle_time_ms=0, topics=list(topics))


async def of_topic(
    asked: DeleteRecordsTopic, call: Call, deadline: Deadline
) -> DeleteRecordsTopicResult:
    partitions = await asyncio.gather(
        *(of_partition(asked.name, one, call, deadline) for one in asked.partitions)
    )
    return DeleteRecordsTopicResult(name=asked.name, partitions=list(partitions))


async def of_partition(
    name: str, asked: DeleteRecordsPartition, call: Call, deadline: Deadline
) -> DeleteRecordsPartitionResult:
    index = asked.partition_index
    try:
        topic = call.node.topics.named(name)
        partition = topic.partition(index)
        check_allowed(topic)
        start = trim(partition, asked.offset)
        await deadline.wait(settled(partition), what=f"trim of {name}-{index} to offset {start}")
    except TierlogError as error:
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=NO_OFFSET, error_code=code_of(error)
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=start, error_code=0)


def check_allowed(topic: Topic) -> None:
    """Some topics keep what they have."""
    if topic.is_internal:
        raise InvalidTopicName(f"records of {topic.name!r} belong to the cluster itself")
    if topic.config.tierlog_compliance:
        raise PolicyViolation(f"topic {topic.name!r} is kept for compliance")
    policy = topic.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise PolicyViolation(f"topic {topic.name!r} is compacted and never deletes by age")


def trim(partition: Partition, offset: int) -> Offset:
    """Move the log start up, if it is not there yet; returns where it is."""
    log = partition.log
    end = partition.high_watermark
    wanted = end if offset == TO_HIGH_WATERMARK else Offset(offset)
    if not 0 <= wanted <= end:
        raise OffsetOutOfRange(offset, log_start=log.log_start, log_end=end)
    if wanted > log.log_start:
        log.trim(wanted)
    return log.log_start


async def settled(partition: Partition) -> None:
    # Also where nothing was trimmed: the start may come from a request whose trim is under way.
    await partition.log.settle()
