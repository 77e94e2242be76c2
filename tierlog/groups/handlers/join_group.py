"""JoinGroup, v0-v9. v1 splits the rebalance timeout from the session's; from v4 on a new member is
given an id to come back with; v5 static members; v7 a null protocol where there is none; v9 tells a
leader that it need not assign (pitfall 15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.groups.values import Join, Joined, Protocol
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.JOIN_GROUP
VERSIONS: Final = (0, 9)
KNOWN_ID_FROM: Final = 4
NULL_PROTOCOL_FROM: Final = 7
SKIP_FROM: Final = 9


async def handle(request: JoinGroupRequest, call: Call) -> JoinGroupResponse:
    join = join_of(request, call)
    try:
        shard = groups_of(call.node).shard_of(join.group)
        joined: Joined = await shard.act(lambda ticket, now: shard.machine.join(join, ticket, now))
    except TierlogError as error:
        joined = Joined(error=code_of(error), member_id=join.member_id)
    return response_of(joined, call.version)


def join_of(request: JoinGroupRequest, call: Call) -> Join:
    has_rebalance_timeout = request.rebalance_timeout_ms >= 0
    return Join(
        group=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id or "",
        host=f"/{call.peer.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if has_rebalance_timeout
        else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(one.name, bytes(one.metadata)) for one in request.protocols),
        needs_known_id=call.version >= KNOWN_ID_FROM,
        can_skip_assignment=call.version >= SKIP_FROM,
    )


def response_of(joined: Joined, version: int) -> JoinGroupResponse:
    protocol = joined.protocol
    if protocol is None and version < NULL_PROTOCOL_FROM:
        protocol = ""
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=protocol,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
            )
            for one in joined.members
        ],
    )
