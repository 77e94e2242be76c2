"""CreateAcls, v1-v3: add access rules.

v1 adds pattern types; v2 is flexible; v3 knows user resources.
"""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class CreateAclsRequest(Request, api_key=30, versions="1-3", flexible="2+"):
    creations: list[AclCreation] = array()


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsResponse(Response, api_key=30, versions="1-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array()


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
