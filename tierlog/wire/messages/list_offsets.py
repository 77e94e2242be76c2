"""ListOffsets, v1-v11: the offset at a time, or at the ends of the log.

v2 adds the isolation level and throttling; v4 leader epochs (KIP-320); v6 is flexible. The later
versions allow more special timestamps: v7 -3 the largest timestamp, v8 -4 the local start, v9 -5
the last tiered offset, v11 -6 the first offset waiting for upload; v10 adds a time limit for
lookups in remote storage (KIP-1075).
"""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, Struct, array, int8, int16, int32, int64, string


class ListOffsetsRequest(Request, api_key=2, versions="1-11", flexible="6+"):
    replica_id: int = int32()
    isolation_level: int = int8("2+", default=0)
    topics: list[ListOffsetsTopic] = array()
    timeout_ms: int = int32("10+", default=0, ignorable=True)


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array()


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()


class ListOffsetsResponse(Response, api_key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array()


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array()


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32("4+", default=-1)
