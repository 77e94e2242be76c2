"""LeaveGroup, v0-v5. From v3 on many members at once, static ones by their instance id (pitfall
17); before, one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.groups.values import Leaving, Left
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.LEAVE_GROUP
VERSIONS: Final = (0, 5)
MANY_FROM: Final = 3


async def handle(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    is_many = call.version >= MANY_FROM
    leaving = (
        [Leaving(one.member_id, one.group_instance_id) for one in request.members]
        if is_many
        else [Leaving(request.member_id, None)]
    )
    try:
        shard = groups_of(call.node).shard_of(request.group_id)
        left: tuple[Left, ...] = await shard.act(
            lambda ticket, now: shard.machine.leave(request.group_id, leaving, ticket, now)
        )
    except TierlogError as error:
        return LeaveGroupResponse(error_code=code_of(error))
    if not is_many:
        return LeaveGroupResponse(error_code=left[0].error)
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=one.member_id, group_instance_id=one.instance_id, error_code=one.error
            )
            for one in left
        ],
    )
