"""FindCoordinator, v0-v6. v1 adds transactions, v4 batches of keys with an error each.

Every group is looked after by this node; the first question makes the topic of the group state.
There are no transactions yet: their ids are answered with COORDINATOR_NOT_AVAILABLE, which clients
take as "ask again later".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
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
GROUP: Final = 0

NO_TRANSACTIONS: Final = "this node has no transaction coordinator yet"


async def handle(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if call.version >= BATCHED_FROM else [request.key]
    error, sentence = await _refusal(request.key_type, call)
    found = [_coordinator(key, error, sentence, call) for key in keys]
    if call.version >= BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def _refusal(key_type: int, call: Call) -> tuple[ErrorCode, str | None]:
    if key_type != GROUP:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_TRANSACTIONS
    try:
        await groups_of(call.node).ensure()
    except TierlogError as error:
        return code_of(error), str(error)
    return ErrorCode.NONE, None


def _coordinator(key: str, error: ErrorCode, sentence: str | None, call: Call) -> Coordinator:
    if error is ErrorCode.NONE and not key:
        error, sentence = ErrorCode.INVALID_GROUP_ID, "a group needs a name"
    is_found = error is ErrorCode.NONE
    host, port = call.node.address_for(call.peer) if is_found else ("", -1)
    return Coordinator(
        key=key,
        node_id=call.node.node_id if is_found else -1,
        host=host,
        port=port,
        error_code=error,
        error_message=sentence,
    )
