"""Fetch, v4-v18: read record batches, as a consumer or as a follower.

v4 is the first with isolation levels; v5 adds log start offsets; v7 fetch sessions (KIP-227); v9
leader epochs; v11 the rack and the preferred read replica (KIP-392); v12 is flexible and reports
divergence in tagged fields (KIP-595); v13 speaks of topics by id; v15 moves the replica id into a
tagged struct; v16 points to current leaders (KIP-951); v17 carries the follower's directory id;
v18 the follower's high watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tierlog.wire.schema import (
    EMPTY,
    NO_UUID,
    Request,
    Response,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    records_,
    string,
    struct,
    uuid,
)

if TYPE_CHECKING:
    from tierlog.types import Bytes


class FetchRequest(Request, api_key=1, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable=True, tag=0, default=None, ignorable=True)
    replica_id: int = int32("4-14", default=-1)
    replica_state: ReplicaState | None = struct("15+", tag=1, default=None)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    isolation_level: int = int8(default=0)
    session_id: int = int32("7+", default=0, ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array()
    forgotten_topics_data: list[ForgottenTopic] = array(versions="7+", default=EMPTY)
    rack_id: str = string("11+", default="", ignorable=True)


class ReplicaState(Struct):
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchTopic(Struct):
    topic: str = string("4-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=NO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array()


class ForgottenTopic(Struct):
    topic: str = string("7-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=NO_UUID, ignorable=True)
    partitions: list[int] = array(int32)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0, default=NO_UUID, ignorable=True)
    high_watermark: int = int64("18+", tag=1, default=9223372036854775807, ignorable=True)


class FetchResponse(Response, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("7+", default=0, ignorable=True)
    session_id: int = int32("7+", default=0)
    responses: list[FetchableTopicResponse] = array()
    node_endpoints: list[NodeEndpoint] = array(versions="16+", tag=0, default=EMPTY)


class FetchableTopicResponse(Struct):
    topic: str = string("4-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=NO_UUID, ignorable=True)
    partitions: list[PartitionData] = array()


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = struct("12+", tag=0, default=None)
    current_leader: LeaderIdAndEpoch | None = struct("12+", tag=1, default=None)
    snapshot_id: SnapshotId | None = struct("12+", tag=2, default=None)
    aborted_transactions: list[AbortedTransaction] | None = array(nullable=True)
    preferred_read_replica: int = int32("11+", default=-1)
    records: Bytes | None = records_(nullable=True, default=None)


class EpochEndOffset(Struct):
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64()
    first_offset: int = int64()
