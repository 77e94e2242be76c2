"""OffsetDelete, v0: forget committed offsets of some partitions (KIP-496). Never flexible."""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, Struct, array, int16, int32, string


class OffsetDeleteRequest(Request, api_key=47, versions="0", flexible="none"):
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array()


class OffsetDeleteRequestTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array()


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32()


class OffsetDeleteResponse(Response, api_key=47, versions="0", flexible="none"):
    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array()


class OffsetDeleteResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array()


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
