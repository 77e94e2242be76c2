"""ListConfigResources, v0-v1: the names that have settings of their own.

v0 lists client-metrics subscriptions; v1 any resource type (KIP-1142).
"""

from __future__ import annotations

from tierlog.wire.schema import EMPTY, Request, Response, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Request, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array(int8, "1+", default=EMPTY)


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array()


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)
