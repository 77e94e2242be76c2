"""Heartbeat, v0-v4. v3 static members.

The request that members send most, and most often there is nothing to wait for: then it is answered
where it is read, without a task.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from tierlog.errors import TierlogError
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.groups.values import Beat
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.codec import decode_whole, encode
from tierlog.wire.header import framed_response
from tierlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    import asyncio

    from tierlog.broker.call import Call
    from tierlog.broker.request import Answer, Parts
    from tierlog.wire.error_codes import ErrorCode

API: Final = ApiKey.HEARTBEAT
VERSIONS: Final = (0, 4)
FLEXIBLE_FROM: Final = 4


def answer(frame: memoryview, position: int, call: Call) -> Answer:
    request = decode_whole(HeartbeatRequest, call.version, frame, position)
    beat = Beat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    try:
        shard = groups_of(call.node).shard_of(beat.group)
        if shard.is_durable:
            # A heartbeat writes nothing down: there is no turn to take, and nobody to wait for.
            return _encoded(shard.machine.hear(beat, shard.now()), call)
        told = shard.act(lambda ticket, now: shard.machine.beat(beat, ticket, now))
    except TierlogError as fault:
        return _encoded(code_of(fault), call)
    return call.node.env.tasks.spawn(_later(told, call), name=API.name)


async def _later(told: asyncio.Future[Any], call: Call) -> Parts:
    """What the machine saw is not durable yet."""
    try:
        error = await told
    except TierlogError as fault:
        error = code_of(fault)
    return _encoded(error, call)


def _encoded(error: ErrorCode, call: Call) -> Parts:
    version = call.version
    return framed_response(
        [_body(error, version)],
        correlation_id=call.correlation_id,
        flexible=version >= FLEXIBLE_FROM,
    )


@cache
def _body(error: ErrorCode, version: int) -> bytes:
    return encode(HeartbeatResponse(error_code=error), version)
