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
    commits: list[Commit] = []
    # Settled before anything is waited for: topics come and go meanwhile.
    plans = [_plan(one, commits, call) for one in request.topics]
    errors = await _commit(request, commits, call)
    return OffsetCommitResponse(
        topics=[_answer(one, plan, errors) for one, plan in zip(request.topics, plans, strict=True)]
    )


def _plan(
    asked: OffsetCommitRequestTopic, commits: list[Commit], call: Call
) -> list[int | ErrorCode]:
    """For each partition the number of its commit, which is added to `commits`, or what is wrong
    with it."""
    name, error = _named(asked, call)
    plan: list[int | ErrorCode] = []
    for each in asked.partitions:
        if error is not ErrorCode.NONE:
            plan.append(error)
        elif not _is_there(name, each.partition_index, call):
            plan.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            plan.append(len(commits))
            commits.append(
                Commit(
                    name,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    _id_of(name, call),
                )
            )
    return plan


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
    asked: OffsetCommitRequestTopic, plan: list[int | ErrorCode], errors: Sequence[ErrorCode]
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=each.partition_index,
                error_code=code if isinstance(code, ErrorCode) else errors[code],
            )
            for each, code in zip(asked.partitions, plan, strict=True)
        ],
    )
