"""DescribeLogDirs, v1-v5. v3 has an error for the whole answer; v4 tells the size of the disk
(KIP-827); v5 whether the directory is cordoned, which here it never is.

One directory, with the bytes of each partition's batches on this disk. Null asks for everything, an
empty list for nothing; what is not here is left out, as in Kafka.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from tierlog.broker.turns import in_turns
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.partition import Partition

API: Final = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS: Final = (1, 5)


async def handle(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    node = call.node
    path, disk = node.directory.path, node.env.disk
    is_broken = node.directory.broken is not None
    return DescribeLogDirsResponse(
        throttle_time_ms=0,
        error_code=0,
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR if is_broken else 0,
                log_dir=path,
                topics=[] if is_broken else await sizes(wanted(request, call)),
                total_bytes=disk.total_bytes(path),
                usable_bytes=disk.free_bytes(path),
            )
        ],
    )


def wanted(request: DescribeLogDirsRequest, call: Call) -> dict[str, list[Partition]]:
    topics = call.node.topics
    if request.topics is None:
        return {topic.name: topic.opened for topic in topics}
    found: dict[str, dict[int, Partition]] = {}
    for asked in request.topics:
        topic = topics.by_name.get(asked.topic)
        present = {} if topic is None else {one.index: one for one in topic.opened}
        here = {one: present[one] for one in asked.partitions if one in present}
        if here:
            found.setdefault(asked.topic, {}).update(here)
    return {name: list(partitions.values()) for name, partitions in found.items()}


async def sizes(found: dict[str, list[Partition]]) -> list[DescribeLogDirsTopic]:
    rows: dict[str, list[DescribeLogDirsPartition]] = {}
    # Each size is a walk over the segments of a log.
    async for partition in in_turns(itertools.chain.from_iterable(found.values())):
        rows.setdefault(partition.topic.name, []).append(size_of(partition))
    return [DescribeLogDirsTopic(name=name, partitions=told) for name, told in rows.items()]


def size_of(partition: Partition) -> DescribeLogDirsPartition:
    log = partition.log
    return DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=log.size_bytes,
        # How far this replica is behind the high watermark: the only one never is.
        offset_lag=max(0, partition.high_watermark - log.log_end),
        is_future_key=False,
    )
