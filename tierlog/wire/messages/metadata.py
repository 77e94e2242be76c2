"""Metadata, v0-v13: brokers, topics, partitions and their leaders.

v1 tells a null topic list (all) from an empty one (none) and adds racks, controller and internal
topics; v2 the cluster id; v3 throttling; v4 the choice to create topics; v5 offline replicas; v7
leader epochs; v8 authorized operations (v11 drops those of the cluster); v10 topic ids in the
answer, v12 lookup by id with a null name; v13 a top-level error code.
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
    string,
    uuid,
)


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = array(nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False)


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid("10+", default=NO_UUID, ignorable=True)
    name: str | None = string(nullable="10+")


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = array()
    cluster_id: str | None = string("2+", nullable=True, default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array()
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+", default=0, ignorable=True)


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable=True, default=None, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+", default=NO_UUID, ignorable=True)
    is_internal: bool = boolean("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = array()
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, "5+", default=EMPTY, ignorable=True)
