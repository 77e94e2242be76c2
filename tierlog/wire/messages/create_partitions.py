"""CreatePartitions, v0-v3: give topics more partitions.

v2 is flexible; v3 may answer a throttling error.
"""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string


class CreatePartitionsRequest(Request, api_key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array()
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(nullable=True)


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32)


class CreatePartitionsResponse(Response, api_key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
