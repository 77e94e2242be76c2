"""AlterReplicaLogDirs, v1-v2: move replicas between log directories (KIP-113). v2 is flexible."""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, Struct, array, int16, int32, string


class AlterReplicaLogDirsRequest(Request, api_key=34, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = array()


class AlterReplicaLogDir(Struct):
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array()


class AlterReplicaLogDirTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32)


class AlterReplicaLogDirsResponse(Response, api_key=34, versions="1-2", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array()


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array()


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()
