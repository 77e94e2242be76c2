"""FindCoordinator, v0-v6. v1 adds transactions, v4 batches of keys with an error each.

Advertised before there are groups, because librdkafka infers features from it (pitfall 4: without
it, it will not use lz4). Until then every key is answered with COORDINATOR_NOT_AVAILABLE, which
clients take as "ask again later".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.FIND_COORDINATOR
VERSIONS: Final = (0, 6)
BATCHED_FROM: Final = 4

SENTENCE: Final = "this node has no group or transaction coordinator yet"


def handle(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    if call.version < BATCHED_FROM:
        return FindCoordinatorResponse(
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            error_message=SENTENCE,
            node_id=-1,
            host="",
            port=-1,
        )
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(
                key=key,
                node_id=-1,
                host="",
                port=-1,
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                error_message=SENTENCE,
            )
            for key in request.coordinator_keys
        ]
    )
