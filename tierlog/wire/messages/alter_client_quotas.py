"""AlterClientQuotas, v0-v1: set and remove quotas (KIP-546). v1 is flexible."""

from __future__ import annotations

from tierlog.wire.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    float64,
    int16,
    int32,
    string,
)


class AlterClientQuotasRequest(Request, api_key=49, versions="0-1", flexible="1+"):
    entries: list[EntryData] = array()
    validate_only: bool = boolean()


class EntryData(Struct):
    entity: list[EntityData] = array()
    ops: list[OpData] = array()


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasResponse(Response, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[EntryResult] = array()


class EntryResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entity: list[EntityData] = array()
