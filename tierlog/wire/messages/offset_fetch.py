"""OffsetFetch, v1-v10: how far a group has read.

v2 allows all topics of a group (null) and adds an error code; v3 throttling; v5 leader epochs; v6
is flexible; v7 can insist on stable offsets (KIP-447); v8 asks for many groups at once (KIP-709);
v9 adds the member of the consumer protocol (KIP-848); v10 speaks of topics by id.
"""

from __future__ import annotations

from tierlog.wire.schema import (
    EMPTY,
    NO_UUID,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class OffsetFetchRequest(Request, api_key=9, versions="1-10", flexible="6+"):
    group_id: str = string("1-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(
        versions="1-7", nullable="2+", default=None
    )
    groups: list[OffsetFetchRequestGroup] = array(versions="8+", default=EMPTY)
    require_stable: bool = boolean("7+", default=False)


class OffsetFetchRequestTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32)


class OffsetFetchRequestGroup(Struct):
    group_id: str = string()
    member_id: str | None = string("9+", nullable=True, default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(nullable=True)


class OffsetFetchRequestTopics(Struct):
    name: str = string("8-9", default="", ignorable=True)
    topic_id: bytes = uuid("10+", default=NO_UUID, ignorable=True)
    partition_indexes: list[int] = array(int32)


class OffsetFetchResponse(Response, api_key=9, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(versions="1-7", default=EMPTY)
    error_code: int = int16("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(versions="8+", default=EMPTY)


class OffsetFetchResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array()


class OffsetFetchResponseGroup(Struct):
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array()
    error_code: int = int16(default=0)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5+", default=-1, ignorable=True)
    metadata: str | None = string(nullable=True)
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    name: str = string("8-9", default="", ignorable=True)
    topic_id: bytes = uuid("10+", default=NO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array()


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable=True)
    error_code: int = int16()
