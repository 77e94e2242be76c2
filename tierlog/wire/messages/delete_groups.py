"""DeleteGroups, v0-v2: remove empty groups and their offsets. v2 is flexible."""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, Struct, array, int16, int32, string


class DeleteGroupsRequest(Request, api_key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = array(string)


class DeleteGroupsResponse(Response, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array()


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()
