"""JoinGroup, v0-v9: enter a classic consumer group or its next generation.

v1 splits the rebalance timeout from the session timeout; v2 adds throttling; v4 makes the first
join return a member id to come back with (KIP-394); v5 static members; v6 is flexible; v7 answers
the protocol type, and a null protocol on error; v8 carries the reason for joining (KIP-800); v9
lets the leader skip the assignment.
"""

from __future__ import annotations

from tierlog.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    bytes_,
    int16,
    int32,
    string,
)


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+"):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable=True, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array()
    reason: str | None = string("8+", nullable=True, default=None, ignorable=True)


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = bytes_()


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable=True, default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+", default=False)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array()


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable=True, default=None, ignorable=True)
    metadata: bytes = bytes_()
