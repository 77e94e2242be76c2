"""DeleteTopics, v1-v6: remove topics.

v1 adds throttling; v4 is flexible; v5 adds an error message; v6 takes names or ids.
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
    string,
    uuid,
)


class DeleteTopicsRequest(Request, api_key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(versions="6+", default=EMPTY)
    topic_names: list[str] = array(string, "1-5", default=EMPTY, ignorable=True)
    timeout_ms: int = int32()


class DeleteTopicState(Struct):
    name: str | None = string(nullable=True, default=None)
    topic_id: bytes = uuid()


class DeleteTopicsResponse(Response, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", default=NO_UUID, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable=True, default=None, ignorable=True)
