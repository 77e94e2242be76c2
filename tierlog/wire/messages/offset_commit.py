"""OffsetCommit, v2-v10: remember how far a group has read.

v3 adds throttling; v5 drops the retention time; v6 adds leader epochs; v7 static members; v8 is
flexible; v9 may be used by the consumer protocol of KIP-848; v10 speaks of topics by id.
"""

from __future__ import annotations

from tierlog.wire.schema import (
    NO_UUID,
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetCommitRequest(Request, api_key=8, versions="2-10", flexible="8+"):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("7+", nullable=True, default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array()


class OffsetCommitRequestTopic(Struct):
    name: str = string("2-9", default="", ignorable=True)
    topic_id: bytes = uuid("10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array()


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable=True)


class OffsetCommitResponse(Response, api_key=8, versions="2-10", flexible="8+"):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array()


class OffsetCommitResponseTopic(Struct):
    name: str = string("2-9", default="", ignorable=True)
    topic_id: bytes = uuid("10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array()


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
