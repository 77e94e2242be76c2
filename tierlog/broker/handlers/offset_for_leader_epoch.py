"""OffsetForLeaderEpoch, v2-v4. v3 names the replica that asks.

Where did this leader epoch end? A consumer that kept its position over a fail-over compares, and
finds out whether what it read was truncated (KIP-320). Either right or not advertised: a stub here
makes clients reset their offsets (pitfall 12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of
from tierlog.errors import TierlogError
from tierlog.types import LeaderEpoch
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS: Final = (2, 4)


def handle(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        throttle_time_ms=0,
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[end_of(topic.topic, wanted, call) for wanted in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def end_of(name: str, wanted: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    try:
        partition = call.node.topics.named(name).partition(wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
    except TierlogError as error:
        return EpochEndOffset(error_code=code_of(error), partition=wanted.partition)
    # The current epoch ends, as far as anybody may know, at the high watermark.
    if wanted.leader_epoch == partition.leader_epoch:
        return EpochEndOffset(
            error_code=0,
            partition=wanted.partition,
            leader_epoch=partition.leader_epoch,
            end_offset=partition.high_watermark,
        )
    if not 0 <= wanted.leader_epoch < partition.leader_epoch:
        return EpochEndOffset(error_code=0, partition=wanted.partition)
    found = partition.epochs.end_of(
        LeaderEpoch(wanted.leader_epoch), log_end=partition.high_watermark
    )
    if found is None:
        return EpochEndOffset(error_code=0, partition=wanted.partition)
    return EpochEndOffset(
        error_code=0,
        partition=wanted.partition,
        leader_epoch=found.leader_epoch,
        end_offset=min(found.start, partition.high_watermark),
    )
