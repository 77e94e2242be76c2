"""ListGroups, v0-v5: the groups this node coordinates.

v1 adds throttling; v3 is flexible; v4 filters by state (KIP-518), v5 by type (KIP-848).
"""

from __future__ import annotations

from tierlog.wire.schema import EMPTY, Request, Response, Struct, array, int16, int32, string


class ListGroupsRequest(Request, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array(string, "4+", default=EMPTY)
    types_filter: list[str] = array(string, "5+", default=EMPTY)


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array()


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", default="", ignorable=True)
    group_type: str = string("5+", default="", ignorable=True)
