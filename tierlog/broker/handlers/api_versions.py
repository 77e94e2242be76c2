"""ApiVersions, v0-v4. v3 names the client's software and is flexible, yet its answer keeps the
response header v0: whoever asks does not know yet what the server speaks (pitfall 1).

A version that is not known is answered with UNSUPPORTED_VERSION in a v0 body that lists the range
of this API; clients then ask again with a lower one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.API_VERSIONS
VERSIONS: Final = (0, 4)
SOFTWARE_FROM: Final = 3

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
"""KIP-511: names and versions of client software."""
SOFTWARE_CHARS_MAX: Final = 200


def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.version >= SOFTWARE_FROM:
        name, version = request.client_software_name, request.client_software_version
        if not (is_software(name) and is_software(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
        call.peer.client_software = f"{name} {version}"
    return ApiVersionsResponse(error_code=0, api_keys=call.node.api_versions)


def is_software(text: str) -> bool:
    return len(text) <= SOFTWARE_CHARS_MAX and _SOFTWARE.match(text) is not None


def refusal(call: Call) -> ApiVersionsResponse:
    """For a version that is not served. In v0, which every client can read."""
    own = [row for row in call.node.api_versions if row.api_key == API]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
