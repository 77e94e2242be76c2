"""OffsetFetch, v1-v10. v2 asks for all topics by null; v8 for many groups; from v9 on
members of consumer groups say their epoch; v10 by topic id.

A group or a partition that nobody committed to is answered with offset -1 and no error (pitfall 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.groups.values import Committed
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tierlog.broker.call import Call
    from tierlog.groups.machine import GroupMachine, Place

API: Final = ApiKey.OFFSET_FETCH
VERSIONS: Final = (1, 10)
MANY_FROM: Final = 8
IDS_FROM: Final = 10
NOTHING: Final = Committed(-1, -1, "", -1)


async def handle(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version >= MANY_FROM:
        return OffsetFetchResponse(groups=[await _group(one, call) for one in request.groups])
    topics = request.topics
    asked = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=one.name, partition_indexes=one.partition_indexes)
            for one in topics
        ],
    )
    found = await _group(asked, call)
    return OffsetFetchResponse(
        error_code=found.error_code, topics=[_older(one) for one in found.topics]
    )


def _older(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=one.partition_index,
                committed_offset=one.committed_offset,
                committed_leader_epoch=one.committed_leader_epoch,
                metadata=one.metadata,
                error_code=one.error_code,
            )
            for one in topic.partitions
        ],
    )


async def _group(asked: OffsetFetchRequestGroup, call: Call) -> OffsetFetchResponseGroup:
    try:
        shard = groups_of(call.node).shard_of(asked.group_id)
        error, known = await shard.read(lambda machine: _look(machine, asked))
    except TierlogError as fault:
        error, known = code_of(fault), {}
    if error is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=[], error_code=error)
    topics = _all_of(known) if asked.topics is None else asked.topics
    return OffsetFetchResponseGroup(
        group_id=asked.group_id,
        topics=[_topic(one, known, call) for one in topics],
        error_code=ErrorCode.NONE,
    )


def _look(
    machine: GroupMachine, asked: OffsetFetchRequestGroup
) -> tuple[ErrorCode, dict[Place, Committed]]:
    error = machine.check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
    return error, dict(machine.committed(asked.group_id))


def _all_of(known: Mapping[Place, Committed]) -> list[OffsetFetchRequestTopics]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(known):
        by_topic.setdefault(topic, []).append(partition)
    return [
        OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
        for name, indexes in by_topic.items()
    ]


def _topic(
    asked: OffsetFetchRequestTopics, known: Mapping[Place, Committed], call: Call
) -> OffsetFetchResponseTopics:
    name, topic_id, error = asked.name, asked.topic_id, ErrorCode.NONE
    if call.version >= IDS_FROM:
        if name:
            found = call.node.topics.by_name.get(name)
            topic_id = topic_id if found is None else found.id
        else:
            found = call.node.topics.by_id.get(topic_id)
            error = ErrorCode.UNKNOWN_TOPIC_ID if found is None else error
        name = name if found is None else found.name
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[
            _partition(index, known.get((name, index), NOTHING), error)
            for index in asked.partition_indexes
        ],
    )


def _partition(index: int, known: Committed, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=known.offset,
        committed_leader_epoch=known.leader_epoch,
        metadata=known.metadata,
        error_code=error,
    )
