"""InitProducerId, v0-v5. v3 lets a producer keep its id and take the next epoch (KIP-360).

For idempotent producers. A transactional id is refused until there are transactions; clients show
the code to their users and stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.metastore import MetaStoreError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.INIT_PRODUCER_ID
VERSIONS: Final = (0, 5)


async def handle(request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        # An empty transactional id is a mistake of the client; a real one waits for transactions.
        code = (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            if request.transactional_id
            else ErrorCode.INVALID_REQUEST
        )
        return refused(code)
    # Without a transactional id an id is always new, as in Kafka: whoever names an old one and asks
    # for its next epoch begins again under a new id.
    try:
        producer_id = await call.node.producer_ids.take()
    except MetaStoreError:
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # Producers ask again after this one.
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0
    )


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=code, producer_id=-1, producer_epoch=-1
    )
