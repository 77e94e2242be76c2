"""Produce, v3-v13: append record batches.

v3 is the first with record batches v2 and transactional ids; v5 answers the log start offset; v8
names the records at fault (KIP-467); v9 is flexible; v10 points to the current leader in tagged
fields (KIP-951); v11 and v12 change what transactions expect (KIP-890), not the bytes; v13 speaks
of topics by id. With acks=0 there is no response at all.
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


class ProduceRequest(Request, api_key=0, versions="3-13", flexible="9+"):
    transactional_id: str | None = string(nullable=True, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array()


class TopicProduceData(Struct):
    name: str = string("3-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=NO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array()


class PartitionProduceData(Struct):
    index: int = int32()
    records: Bytes | None = records_(nullable=True, default=None)


class ProduceResponse(Response, api_key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array()
    throttle_time_ms: int = int32(default=0)
    node_endpoints: list[NodeEndpoint] = array(versions="10+", tag=0, default=EMPTY)


class TopicProduceResponse(Struct):
    name: str = string("3-12", default="", ignorable=True)
    topic_id: bytes = uuid("13+", default=NO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array()


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable=True, default=None)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        versions="8+", default=EMPTY, ignorable=True
    )
    error_message: str | None = string("8+", nullable=True, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = struct("10+", tag=0, default=None)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable=True, default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
