"""FindCoordinator, v0-v6: which node looks after a group or a transactional id.

v1 adds the key type, throttling and an error message; v3 is flexible; v4 asks for many keys at
once, with an error each (KIP-699); v5 may answer with a transaction error clients abort on; v6
allows share-group keys.
"""

from __future__ import annotations

from tierlog.wire.schema import EMPTY, Request, Response, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
    key: str = string("0-3", default="")
    key_type: int = int8("1+", default=0)
    coordinator_keys: list[str] = array(string, "4+", default=EMPTY)


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0-3", default=0)
    error_message: str | None = string("1-3", nullable=True, default=None, ignorable=True)
    node_id: int = int32("0-3", default=0)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0)
    coordinators: list[Coordinator] = array(versions="4+", default=EMPTY)


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
