"""Heartbeat, v0-v4. v3 static members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.groups.values import Beat
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.HEARTBEAT
VERSIONS: Final = (0, 4)


async def handle(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    beat = Beat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    try:
        shard = groups_of(call.node).shard_of(beat.group)
        error = await shard.act(lambda ticket, now: shard.machine.beat(beat, ticket, now))
    except TierlogError as fault:
        error = code_of(fault)
    return HeartbeatResponse(error_code=error)
