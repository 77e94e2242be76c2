"""ListOffsets, v1-v11. v2 adds the isolation level, v4 leader epochs, v7 the record with the
largest timestamp (KIP-734), v8 the earliest local offset, v9 the last tiered one, v11 the
earliest that waits for its upload.

A time that no record has reached is answered with offset -1 and no error; a hit is the first
*record* at or after it, not its batch (pitfall 13). Only questions about time take time, so only
their answers come later; a search of the bucket takes round trips, so several partitions are
searched at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of
from tierlog.broker.limits import REQUEST_ELEMENTS_MAX
from tierlog.errors import TierlogError
from tierlog.types import Offset, TimestampMs
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.codec import decode_whole
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.header import encode_response
from tierlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.partition import Partition
    from tierlog.broker.request import Answer, Parts

API: Final = ApiKey.LIST_OFFSETS
VERSIONS: Final = (1, 11)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LAST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

KNOWN_FROM: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LAST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version in which each number below zero has its meaning."""

NOTHING: Final = (-1, -1)
"""Offset and timestamp where there is no such record."""

SEARCHES_MAX: Final = 16
"""Partitions of one request that are searched by time at once."""


def answer(frame: memoryview, position: int, call: Call) -> Answer:
    request = decode_whole(
        ListOffsetsRequest, call.version, frame, position, elements_max=REQUEST_ELEMENTS_MAX
    )
    work = answered(request, call)
    if any(is_about_time(one.timestamp) for topic in request.topics for one in topic.partitions):
        return call.node.env.tasks.spawn(work, name=API.name)
    try:
        work.send(None)
    except StopIteration as stop:
        parts: Parts = stop.value
        return parts
    raise AssertionError("only a search by time waits")


def is_about_time(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == MAX_TIMESTAMP


async def answered(request: ListOffsetsRequest, call: Call) -> Parts:
    counts = Counter(
        (topic.name, wanted.partition_index)
        for topic in request.topics
        for wanted in topic.partitions
    )
    response = ListOffsetsResponse(topics=[])
    searches: list[Search] = []
    for topic in request.topics:
        partitions: list[ListOffsetsPartitionResponse] = []
        for wanted in topic.partitions:
            one = refused(wanted, ErrorCode.INVALID_REQUEST)
            if counts[topic.name, wanted.partition_index] == 1:
                if is_about_time(wanted.timestamp):
                    searches.append((topic.name, wanted, partitions, len(partitions)))
                else:
                    one = await found(topic.name, wanted, call)
            partitions.append(one)
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    if searches:
        await search_all(searches, call)
    return encode_response(response, call.version, correlation_id=call.correlation_id)


Search = tuple[str, ListOffsetsPartition, list[ListOffsetsPartitionResponse], int]
"""Topic, question, and the place of the answer."""


async def search_all(searches: list[Search], call: Call) -> None:
    """Put every answer in its place."""
    waiting = iter(searches)

    async def search() -> None:
        for name, wanted, partitions, place in waiting:
            partitions[place] = await found(name, wanted, call)

    await asyncio.gather(*(search() for _ in searches[:SEARCHES_MAX]))


async def found(
    name: str, wanted: ListOffsetsPartition, call: Call
) -> ListOffsetsPartitionResponse:
    try:
        partition = call.node.topics.named(name).partition(wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if wanted.timestamp < 0 and call.version < KNOWN_FROM.get(wanted.timestamp, 1 << 15):
            return refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
        offset, timestamp = await look_up(partition, wanted.timestamp, call)
    except TierlogError as error:
        return refused(wanted, code_of(error))
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=0,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch_at(partition, offset) if call.version >= EPOCHS_FROM else -1,
    )


EPOCHS_FROM: Final = 4


async def look_up(partition: Partition, timestamp: int, call: Call) -> tuple[int, int]:
    """Offset and timestamp. Without transactions the last stable offset is the high watermark."""
    if timestamp == LATEST:
        return partition.high_watermark, -1
    if timestamp == EARLIEST_LOCAL:
        return partition.log.log_start, -1
    partition.check_start()
    if timestamp == EARLIEST:
        return partition.log_start, -1
    if timestamp == LAST_TIERED:
        return last_tiered(partition), -1
    if timestamp == EARLIEST_PENDING_UPLOAD:
        return earliest_pending(partition), -1
    if timestamp == MAX_TIMESTAMP:
        return await latest_by_time(partition, call) or NOTHING
    return await first_at_time(partition, TimestampMs(timestamp), call) or NOTHING


def last_tiered(partition: Partition) -> int:
    """The last offset in the bucket, -1 if there is none."""
    cold = partition.cold
    return -1 if cold is None or cold.log_start >= cold.uploaded_end else cold.uploaded_end - 1


def earliest_pending(partition: Partition) -> int:
    """The first offset that waits for its upload, -1 where nothing is ever uploaded."""
    cold = partition.cold
    return -1 if cold is None else max(cold.uploaded_end, partition.log.log_start)


async def first_at_time(
    partition: Partition, timestamp: TimestampMs, call: Call
) -> tuple[int, int] | None:
    """In the bucket first, where the older records are; then in the local log."""
    searched_to = Offset(0)
    while True:
        local_start = partition.log.log_start
        start = max(partition.log_start, searched_to)
        if (cold := partition.older) is not None and (proxy := call.node.proxy) is not None:
            found = await proxy.search_time(cold, timestamp, start=start)
            if found is not None:
                return found
        found = await call.node.searches.run(partition.log.search_time(timestamp))
        if partition.cold is None or partition.log.log_start == local_start:
            return found
        # Segments left the disk under the search, perhaps unseen: they are in the bucket now.
        searched_to = local_start


async def latest_by_time(partition: Partition, call: Call) -> tuple[int, int] | None:
    """The first of the two where both tiers have the same largest timestamp, as in Kafka."""
    local = await call.node.searches.run(partition.log.search_latest())
    if (cold := partition.older) is None or (proxy := call.node.proxy) is None:
        return local
    older = await proxy.search_latest(cold, start=partition.log_start)
    if older is None or local is None:
        return older or local
    return older if older[1] >= local[1] else local


def epoch_at(partition: Partition, offset: int) -> int:
    if offset < 0:
        return -1
    if offset >= partition.log.log_end:
        return partition.leader_epoch
    known = partition.epochs.at(Offset(offset))
    return -1 if known is None else known


def refused(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)
