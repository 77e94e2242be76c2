"""ApiVersions: what the other side speaks, asked before anything else.

A broker that does not know our version of the question answers UNSUPPORTED_VERSION in the body of
v0, whatever was asked, and names the versions of ApiVersions it knows. We then ask once more with
the best of these, or with v0.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from tierlog.client.errors import BadAnswer, check
from tierlog.types import Bytes
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.header import decode_response, encode_request
from tierlog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

ApiRanges: TypeAlias = dict[int, tuple[int, int]]
"""API key -> lowest and highest version, both inclusive."""

SOFTWARE_NAME = "tierlog"
SOFTWARE_VERSION = "0.1"
HANDSHAKE_ID = 0
VERSION_MAX = ApiVersionsRequest.versions.last


class Caller(Protocol):
    client_id: str | None

    async def call_raw(self, frame: Bytes) -> bytes: ...


async def agree(connection: Caller) -> ApiRanges:
    """Ask, if need be twice."""
    answer = await _ask(connection, VERSION_MAX)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        answer = await _ask(connection, _second_version(answer.api_keys))
    check(answer.error_code)
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def _second_version(rows: Sequence[ApiVersion]) -> int:
    served = [row.max_version for row in rows if row.api_key == ApiKey.API_VERSIONS]
    return max(0, min([VERSION_MAX - 1, *served]) if served else 0)


async def _ask(connection: Caller, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )
    parts = encode_request(
        request, version, correlation_id=HANDSHAKE_ID, client_id=connection.client_id
    )
    frame = await connection.call_raw(b"".join(parts)[4:])
    refused = int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
    _, answer = decode_response(ApiKey.API_VERSIONS, 0 if refused else version, frame)
    if not isinstance(answer, ApiVersionsResponse):
        raise BadAnswer(f"{type(answer).__name__} for ApiVersions")
    return answer
