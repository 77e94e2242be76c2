"""DeleteGroups, v0-v2: groups without members, and their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.wire.error_codes import ErrorCode

API: Final = ApiKey.DELETE_GROUPS
VERSIONS: Final = (0, 2)


async def handle(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time_ms=0,
        results=[
            DeletableGroupResult(group_id=one, error_code=await _delete(one, call))
            for one in request.groups_names
        ],
    )


async def _delete(group_id: str, call: Call) -> ErrorCode:
    try:
        shard = groups_of(call.node).shard_of(group_id)
        error: ErrorCode = await shard.act(
            lambda ticket, now: shard.machine.delete(group_id, ticket, now)
        )
    except TierlogError as fault:
        return code_of(fault)
    return error
