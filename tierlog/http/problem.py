"""Errors as RFC 9457 tells them: `application/problem+json`, for programs and people alike."""

import json
from typing import Final

PROBLEM_TYPE: Final = "application/problem+json"

TITLES: Final = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
"""Of every status that this room sends."""


class Problem(Exception):
    """A request that cannot be served: its status, a sentence, and members for programs."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        members: dict[str, object] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.members = members or {}
        self.headers = headers or {}

    def to_bytes(self) -> bytes:
        body = {"title": TITLES[self.status], "status": self.status, "detail": self.detail}
        return json.dumps(body | self.members).encode() + b"\n"
