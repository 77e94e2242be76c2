"""ElectLeaders, v0-v2: start an election of leaders.

v1 chooses between preferred and unclean elections (KIP-460) and adds a top-level error; v2 is
flexible.
"""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class ElectLeadersRequest(Request, api_key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+", default=0)
    topic_partitions: list[TopicPartitions] | None = array(nullable=True)
    timeout_ms: int = int32(default=60000)


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = array()


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = array()


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
