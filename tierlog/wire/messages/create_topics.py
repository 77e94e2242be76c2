"""CreateTopics, v2-v7: make topics, with assignments and configs if wished.

v4 allows -1 for partitions and replicas: the broker's default (KIP-464); v5 is flexible and
returns what was made (KIP-525); v6 may answer a throttling error; v7 returns the topic id.
"""

from __future__ import annotations

from tierlog.wire.schema import (
    NO_UUID,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class CreateTopicsRequest(Request, api_key=19, versions="2-7", flexible="5+"):
    topics: list[CreatableTopic] = array()
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(default=False)


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array()
    configs: list[CreatableTopicConfig] = array()


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array(int32)


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable=True)


class CreateTopicsResponse(Response, api_key=19, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array()


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: bytes = uuid("7+", default=NO_UUID, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    topic_config_error_code: int = int16("5+", tag=0, default=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        versions="5+", nullable=True, default=None, ignorable=True
    )


class CreatableTopicConfigs(Struct):
    name: str = string()
    value: str | None = string(nullable=True)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
