"""DeleteRecords, v0-v2. Moves the log start offset of partitions up; -1 stands for the high
watermark.

The low watermark is answered once it is durable: records that somebody was told are gone do not
come back after a crash. The log notes it first; for records in the bucket the manifest must say so
as well, and where that fails or takes longer than the request's timeout, the sender hears an error
and the uploader goes on telling it. An offset at or below the log start is no error; there is
nothing to do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of
from tierlog.broker.deadline import Deadline
from tierlog.broker.errors import InvalidTopicName, PolicyViolation
from tierlog.broker.turns import in_turns
from tierlog.errors import TierlogError
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.types import Offset
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
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
    trimmed: list[tuple[Partition, DeleteRecordsPartitionResult]] = []
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                of_partition(topic.name, asked, call, trimmed)
                async for asked in in_turns(topic.partitions)
            ],
        )
        async for topic in in_turns(request.topics)
    ]
    await settle(trimmed, deadline, call)
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


def of_partition(
    name: str,
    asked: DeleteRecordsPartition,
    call: Call,
    trimmed: list[tuple[Partition, DeleteRecordsPartitionResult]],
) -> DeleteRecordsPartitionResult:
    """Trim one; its result holds once the trim is durable."""
    index = asked.partition_index
    result = DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=NO_OFFSET, error_code=0
    )
    try:
        topic = call.node.topics.named(name)
        partition = topic.partition(index)
        check_allowed(topic)
        result.low_watermark = trim(partition, asked.offset, call)
        trimmed.append((partition, result))
    except TierlogError as error:
        refuse(result, error)
    return result


def refuse(result: DeleteRecordsPartitionResult, error: TierlogError) -> None:
    result.low_watermark, result.error_code = NO_OFFSET, code_of(error)


async def settle(
    trimmed: list[tuple[Partition, DeleteRecordsPartitionResult]], deadline: Deadline, call: Call
) -> None:
    """Wait for the disk: for all at once, which makes one round of syncs, and for each partition
    once, however often it was named. Also where nothing was trimmed: the start may come from a
    request whose trim is under way."""
    partitions = list(dict.fromkeys(partition for partition, _ in trimmed))
    faults = await asyncio.gather(*(fault_of(one, deadline, call) for one in partitions))
    told = dict(zip(partitions, faults, strict=True))
    for partition, result in trimmed:
        if (fault := told[partition]) is not None:
            refuse(result, fault)


async def fault_of(partition: Partition, deadline: Deadline, call: Call) -> TierlogError | None:
    """What kept the trim from being durable in time."""
    try:
        what = f"trim of {partition.topic.name}-{partition.index}"
        await deadline.wait(settled(partition, call), what=what)
    except TierlogError as error:
        return error
    return None


def check_allowed(topic: Topic) -> None:
    """Some topics keep what they have."""
    if topic.is_internal:
        raise InvalidTopicName(f"records of {topic.name!r} belong to the cluster itself")
    if topic.config.tierlog_compliance:
        raise PolicyViolation(f"topic {topic.name!r} is kept for compliance")
    policy = topic.config.cleanup_policy
    if "compact" in policy and "delete" not in policy:
        raise PolicyViolation(f"topic {topic.name!r} is compacted and never deletes by age")


def trim(partition: Partition, offset: int, call: Call) -> Offset:
    """Move the log start up, if it is not there yet; returns where it is."""
    log_start = partition.log_start
    end = partition.high_watermark
    wanted = end if offset == TO_HIGH_WATERMARK else Offset(offset)
    if not 0 <= wanted <= end:
        raise OffsetOutOfRange(offset, log_start=log_start, log_end=end)
    partition.check_start()  # Beside a bucket that has not answered nobody knows what it adds.
    if wanted <= log_start:
        return log_start
    if partition.cold is not None and (tiering := call.node.tiering) is not None:
        tiering.check_may_delete(partition.cold, wanted)
    partition.log.trim(wanted)
    return partition.log_start


async def settled(partition: Partition, call: Call) -> None:
    """On the disk, then in the bucket. What is not uploaded yet is skipped by the next publish, or
    told to it (U10)."""
    await partition.log.settle()
    if partition.cold is not None and (tiering := call.node.tiering) is not None:
        await tiering.delete_records(partition)
