"""ApiVersions, v0-v4: which APIs and versions the server speaks.

v1 adds throttling; v3 is flexible and brings the client's name and version, and the features of
the cluster as tagged fields (KIP-511, KIP-584); v4 lets a feature's minimum be 0. The response
header stays v0 in every version, since the client cannot know yet what the server understands.
"""

from __future__ import annotations

from tierlog.wire.schema import (
    EMPTY,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class ApiVersionsRequest(Request, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+", default="", ignorable=True)
    client_software_version: str = string("3+", default="", ignorable=True)


class ApiVersionsResponse(Response, api_key=18, versions="0-4", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array()
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(
        versions="3+", tag=0, default=EMPTY, ignorable=True
    )
    finalized_features_epoch: int = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(
        versions="3+", tag=2, default=EMPTY, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, default=False, ignorable=True)


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()
