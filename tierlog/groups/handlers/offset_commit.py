"""OffsetCommit, v2-v10. v6 adds leader epochs, v7 static members; from v9 on members of consumer
groups say their epoch in place of a generation; v10 has topic ids (pitfall 6).

A topic that is not there is refused by its own entry: the rest is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.groups.values import Commit
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tierlog.broker.call import Call

API: Final = ApiKey.OFFSET_COMMIT
VERSIONS: Final = (2, 10)
IDS_FROM: Final = 10


async def handle(request: OffsetCommitRequest, call: Call) -> OffsetCommitResponse:
    topics = [_named(one, call) for one in request.topics]
    commits = [
        Commit(
            name,
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.committed_metadata or "",
            _id_of(name, call),
        )
        for one, (name, error) in zip(request.topics, topics, strict=True)
        if error is ErrorCode.NONE
        for each in one.partitions
        if _is_there(name, each.partition_index, call)
    ]
    errors = iter(await _commit(request, commits, call))
    return OffsetCommitResponse(
        topics=[
            _answer(one, name, error, errors, call)
            for one, (name, error) in zip(request.topics, topics, strict=True)
        ]
    )


async def _commit(
    request: OffsetCommitRequest, commits: list[Commit], call: Call
) -> Sequence[ErrorCode]:
    try:
        shard = groups_of(call.node).shard_of(request.group_id)
        errors: Sequence[ErrorCode] = await shard.act(
            lambda ticket, now: shard.machine.commit(
                request.group_id,
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                commits,
                ticket,
                now,
                version=call.version,
            )
        )
    except TierlogError as error:
        return [code_of(error)] * len(commits)
    return errors


def _named(topic: OffsetCommitRequestTopic, call: Call) -> tuple[str, ErrorCode]:
    if call.version < IDS_FROM:
        return topic.name, ErrorCode.NONE
    found = call.node.topics.by_id.get(topic.topic_id)
    return ("", ErrorCode.UNKNOWN_TOPIC_ID) if found is None else (found.name, ErrorCode.NONE)


def _id_of(name: str, call: Call) -> bytes:
    topic = call.node.topics.by_name.get(name)
    return b"" if topic is None else topic.id


def _is_there(name: str, index: int, call: Call) -> bool:
    topic = call.node.topics.by_name.get(name)
    return topic is not None and 0 <= index < len(topic.partitions)


def _answer(
    asked: OffsetCommitRequestTopic,
    name: str,
    error: ErrorCode,
    errors: object,
    call: Call,
) -> OffsetCommitResponseTopic:
    partitions = []
    for each in asked.partitions:
        code = error
        if error is ErrorCode.NONE:
            is_there = _is_there(name, each.partition_index, call)
            code = next(errors) if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # type: ignore[call-overload]
        partitions.append(
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
        )
    return OffsetCommitResponseTopic(
        name=asked.name, topic_id=asked.topic_id, partitions=partitions
    )
