"""LeaveGroup, v0-v5: members leave a classic group.

v1 adds throttling; v3 takes many members, static ones by instance id (KIP-345); v4 is flexible;
v5 carries the reason (KIP-800).
"""

from __future__ import annotations

from tierlog.wire.schema import EMPTY, Request, Response, Struct, array, int16, int32, string


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+"):
    group_id: str = string()
    member_id: str = string("0-2", default="")
    members: list[MemberIdentity] = array(versions="3+", default=EMPTY)


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True, default=None)
    reason: str | None = string("5+", nullable=True, default=None, ignorable=True)


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(versions="3+", default=EMPTY)


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True)
    error_code: int = int16()
