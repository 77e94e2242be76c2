"""ListOffsets, v1-v11. v2 adds the isolation level, v4 leader epochs, v7 the record with the
largest timestamp (KIP-734), v8 the earliest local offset, v9 the last tiered one, v11 the
earliest that waits for its upload.

A time that no record has reached is answered with offset -1 and no error; a hit is the first
*record* at or after it, not its batch (pitfall 13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of
from tierlog.errors import TierlogError
from tierlog.types import Offset, TimestampMs
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
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


def handle(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for wanted in topic.partitions:
            place = (topic.name, wanted.partition_index)
            (twice if place in seen else seen).add(place)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    refused(wanted, ErrorCode.INVALID_REQUEST)
                    if (topic.name, wanted.partition_index) in twice
                    else found(topic.name, wanted, call)
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def found(name: str, wanted: ListOffsetsPartition, call: Call) -> ListOffsetsPartitionResponse:
    try:
        partition = call.node.topics.named(name).partition(wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if wanted.timestamp < 0 and call.version < KNOWN_FROM.get(wanted.timestamp, 1 << 15):
            return refused(wanted, ErrorCode.UNSUPPORTED_VERSION)
        offset, timestamp = look_up(partition, wanted.timestamp)
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


def look_up(partition: Partition, timestamp: int) -> tuple[int, int]:
    """Offset and timestamp. Without transactions the last stable offset is the high watermark."""
    log = partition.log
    if timestamp == LATEST:
        return partition.high_watermark, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.log_start, -1
    if timestamp == MAX_TIMESTAMP:
        return log.latest_by_time() or NOTHING
    if timestamp in (LAST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING  # Nothing of this partition is in the bucket, or on its way there.
    return log.find_by_time(TimestampMs(timestamp)) or NOTHING


def epoch_at(partition: Partition, offset: int) -> int:
    if offset < 0:
        return -1
    if offset >= partition.log.log_end:
        return partition.leader_epoch
    known = partition.log.epochs.at(Offset(offset))
    return -1 if known is None else known


def refused(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)
