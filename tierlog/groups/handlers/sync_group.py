"""SyncGroup, v0-v5. v3 static members; v5 compares what members think was agreed upon. Assignments
are bytes, empty where there are none, never null (pitfall 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.groups.values import Sync, Synced
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.SYNC_GROUP
VERSIONS: Final = (0, 5)


async def handle(request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    sync = Sync(
        group=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
    )
    try:
        shard = groups_of(call.node).shard_of(sync.group)
        synced: Synced = await shard.act(lambda ticket, now: shard.machine.sync(sync, ticket, now))
    except TierlogError as error:
        synced = Synced(error=code_of(error))
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
