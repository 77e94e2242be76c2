"""DescribeQuorum, v0-v2: the controllers' log and its voters (KIP-595).

v1 adds the times of the last fetch (KIP-836); v2 error messages, directory ids and the nodes'
listeners (KIP-853).
"""

from __future__ import annotations

from tierlog.wire.schema import (
    EMPTY,
    NO_UUID,
    Request,
    Response,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class DescribeQuorumRequest(Request, api_key=55, versions="0-2", flexible="0+"):
    topics: list[TopicData] = array()


class TopicData(Struct):
    topic_name: str = string()
    partitions: list[PartitionData] = array()


class PartitionData(Struct):
    partition_index: int = int32()


class DescribeQuorumResponse(Response, api_key=55, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string("2+", nullable=True, default=None, ignorable=True)
    topics: list[TopicState] = array()
    nodes: list[Node] = array(versions="2+", default=EMPTY)


class Node(Struct):
    node_id: int = int32()
    listeners: list[Listener] = array()


class TopicState(Struct):
    topic_name: str = string()
    partitions: list[PartitionState] = array()


class PartitionState(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable=True, default=None, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array()
    observers: list[ReplicaState] = array()


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class ReplicaState(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+", default=NO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)
