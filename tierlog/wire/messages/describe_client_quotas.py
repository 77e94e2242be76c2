"""DescribeClientQuotas, v0-v1: quotas of users, clients and addresses (KIP-546). v1 is flexible."""

from __future__ import annotations

from tierlog.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    string,
)


class DescribeClientQuotasRequest(Request, api_key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData] = array()
    strict: bool = boolean()


class ComponentData(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable=True)


class DescribeClientQuotasResponse(Response, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entries: list[EntryData] | None = array(nullable=True)


class EntryData(Struct):
    entity: list[EntityData] = array()
    values: list[ValueData] = array()


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class ValueData(Struct):
    key: str = string()
    value: float = float64()
