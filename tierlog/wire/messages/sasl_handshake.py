"""SaslHandshake, v0-v1: choose the SASL mechanism.

From v1 on the tokens travel in SaslAuthenticate. Never flexible.
"""

from __future__ import annotations

from tierlog.wire.schema import Request, Response, array, int16, string


class SaslHandshakeRequest(Request, api_key=17, versions="0-1", flexible="none"):
    mechanism: str = string()


class SaslHandshakeResponse(Response, api_key=17, versions="0-1", flexible="none"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
