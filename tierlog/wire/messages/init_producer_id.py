"""InitProducerId, v0-v5: get a producer id, for idempotence or transactions.

v2 is flexible; v3 lets a producer bump its own epoch (KIP-360); v4 may answer PRODUCER_FENCED and
v5 TRANSACTION_ABORTABLE, with the same bytes.
"""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, int16, int32, int64, string


class InitProducerIdRequest(Request, api_key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None = string(nullable=True)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Response, api_key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
