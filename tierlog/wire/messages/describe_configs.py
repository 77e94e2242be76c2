"""DescribeConfigs, v1-v4: the settings of topics, brokers and groups, and their sources.

v1 adds sources and synonyms; v3 types and documentation; v4 is flexible.
"""

from __future__ import annotations

from tierlog.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
)


class DescribeConfigsRequest(Request, api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array()
    include_synonyms: bool = boolean(default=False)
    include_documentation: bool = boolean("3+", default=False)


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable=True)


class DescribeConfigsResponse(Response, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array()


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array()


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable=True)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array()
    config_type: int = int8("3+", default=0, ignorable=True)
    documentation: str | None = string("3+", nullable=True, default=None, ignorable=True)


class DescribeConfigsSynonym(Struct):
    name: str = string()
    value: str | None = string(nullable=True)
    source: int = int8()
