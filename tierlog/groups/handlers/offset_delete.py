"""OffsetDelete, v0: forget how far a group came, in topics that it does not read now (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierlog.broker.call import Call

API: Final = ApiKey.OFFSET_DELETE
VERSIONS: Final = (0, 0)


async def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    places = [
        (topic.name, one.partition_index)
        for topic in request.topics
        for one in topic.partitions
        if _is_there(topic.name, one.partition_index, call)
    ]
    if not places and any(topic.partitions for topic in request.topics):
        return response_of(request, {})  # As Kafka does: the group is not asked then.
    try:
        shard = groups_of(call.node).shard_of(request.group_id)
        errors = await shard.act(
            lambda ticket, now: shard.machine.delete_offsets(request.group_id, places, ticket, now)
        )
    except TierlogError as error:
        errors = code_of(error)
    if isinstance(errors, ErrorCode):
        return OffsetDeleteResponse(error_code=errors, throttle_time_ms=0, topics=[])
    return response_of(request, dict(zip(places, errors, strict=True)))


def _is_there(topic: str, partition: int, call: Call) -> bool:
    known = call.node.topics.by_name.get(topic)
    return known is not None and 0 <= partition < len(known.partitions)


def response_of(
    request: OffsetDeleteRequest, errors: Mapping[tuple[str, int], ErrorCode]
) -> OffsetDeleteResponse:
    """Places without an error of their own are not there."""
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        throttle_time_ms=0,
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.get(
                            (topic.name, one.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
