"""SaslAuthenticate, v0-v2: one SASL token each way.

v1 adds the session lifetime (KIP-368); v2 is flexible.
"""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, bytes_, int16, int64, string


class SaslAuthenticateRequest(Request, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = bytes_()


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64("1+", default=0, ignorable=True)
