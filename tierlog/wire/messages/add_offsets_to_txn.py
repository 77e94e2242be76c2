"""AddOffsetsToTxn, v0-v4: the transaction will also commit offsets of a group.

v3 is flexible; v1, v2 and v4 change what errors may be answered, not the bytes.
"""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request, api_key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, api_key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
