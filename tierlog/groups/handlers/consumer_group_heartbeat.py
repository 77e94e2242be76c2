"""ConsumerGroupHeartbeat, v0-v1. v1 lets clients make their member ids, and subscribe by pattern.

Members join with epoch 0, leave with -1, and with -2 if they are static and come back (pitfall 18).
Nearly all heartbeats change nothing, and are answered where they are read, without a task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tierlog.broker.limits import REQUEST_ELEMENTS_MAX
from tierlog.errors import TierlogError
from tierlog.groups.consumer_member import JOINING, LEFT_FOR_A_WHILE, by_topic
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.patterns import InvalidPattern
from tierlog.groups.service import groups_of
from tierlog.groups.values import Beaten, ConsumerBeat, Refusal
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.codec import decode_whole
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.header import encode_response
from tierlog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierlog.broker.call import Call
    from tierlog.broker.request import Answer, Parts
    from tierlog.groups.assigning import Spot
    from tierlog.groups.service import GroupCoordinator
    from tierlog.groups.topicview import HeldView, TopicView

API: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSIONS: Final = (0, 1)
OWN_ID_FROM: Final = 1
PASSES_MAX: Final = 5
"""Over the patterns of a group, while topics or members change."""


def answer(frame: memoryview, position: int, call: Call) -> Answer:
    request = decode_whole(
        ConsumerGroupHeartbeatRequest,
        call.version,
        frame,
        position,
        elements_max=REQUEST_ELEMENTS_MAX,
    )
    groups = groups_of(call.node)
    try:
        check(request, call.version, groups.consumer_assignors)
        beat = beat_of(request, call)
        topics = groups.topic_view
        if needed := groups.shard_of(beat.group).machine.patterns_for(beat, topics):
            topics = topics.holding()
            if not all(map(topics.knows, needed)):
                work = _after_matching(beat, topics, groups, call)
                return call.node.env.tasks.spawn(work, name=API.name)
        told = _told(beat, topics, groups)
        if told.done():
            return _encoded(told.result(), call)
    except (Refusal, TierlogError) as fault:
        return _encoded(_refused(fault), call)
    return call.node.env.tasks.spawn(_later(told, call), name=API.name)


def _told(beat: ConsumerBeat, topics: TopicView, groups: GroupCoordinator) -> asyncio.Future[Any]:
    """Done at once if nothing had to be written down."""
    shard = groups.shard_of(beat.group)
    return shard.act(lambda ticket, now: shard.machine.consumer_beat(beat, topics, ticket, now))


async def _later(told: asyncio.Future[Any], call: Call) -> Parts:
    try:
        return _encoded(await told, call)
    except TierlogError as fault:
        return _encoded(_refused(fault), call)


async def _after_matching(
    beat: ConsumerBeat, held: HeldView, groups: GroupCoordinator, call: Call
) -> Parts:
    try:
        async with groups.matching:
            told = _told(beat, await _matched(beat, held, groups), groups)
        return _encoded(await told, call)
    except InvalidPattern as fault:
        beaten = Beaten(error=ErrorCode.INVALID_REGULAR_EXPRESSION, sentence=str(fault))
        return _encoded(beaten, call)
    except TierlogError as fault:
        return _encoded(_refused(fault), call)


async def _matched(beat: ConsumerBeat, held: HeldView, groups: GroupCoordinator) -> HeldView:
    """Patterns are matched in steps, between which others have their turn. Topics and members may
    change meanwhile: then what is known of the others is not asked again. Whose change faster than
    that are answered by what is known then; the next beat sees the rest."""
    for _ in range(PASSES_MAX):
        topics = groups.topic_view
        if topics.generation != held.generation:
            held = topics.holding(held)
        needed = groups.shard_of(beat.group).machine.patterns_for(beat, held)
        missing = [one for one in needed if not held.knows(one)]
        if not missing:
            break
        for pattern in missing:
            for _ in held.match(pattern):
                await asyncio.sleep(0)
    return held


def _refused(fault: Refusal | TierlogError) -> Beaten:
    code = fault.code if isinstance(fault, Refusal) else code_of(fault)
    return Beaten(error=code, sentence=str(fault))


def _encoded(beaten: Beaten, call: Call) -> Parts:
    return encode_response(response_of(beaten), call.version, correlation_id=call.correlation_id)


def check(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Iterable[str]) -> None:
    """Raises `Refusal` for what says too little, or too much."""
    if _is_plain(request):
        return
    for sentence, is_wrong in _faults(request, version):
        if is_wrong:
            raise Refusal(ErrorCode.INVALID_REQUEST, sentence)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor!r:.200}; ask for one of "
            f"{', '.join(sorted(assignors))}, or for none",
        )


def _is_plain(request: ConsumerGroupHeartbeatRequest) -> bool:
    """As nearly all are: from somebody who is in the group, and of nothing new."""
    return bool(
        request.group_id
        and request.member_id
        and request.member_epoch > JOINING
        and request.instance_id is None
        and request.rack_id is None
        and request.server_assignor is None
    )


def _faults(request: ConsumerGroupHeartbeatRequest, version: int) -> list[tuple[str, bool]]:
    epoch = request.member_epoch
    is_joining, is_static = epoch == JOINING, request.instance_id is not None
    may_lack_id = is_joining and version < OWN_ID_FROM
    has_subscription = bool(request.subscribed_topic_names or request.subscribed_topic_regex)
    return [
        ("a group needs a name", not request.group_id),
        ("a member needs an id", not request.member_id and not may_lack_id),
        ("an instance id is null or a name, not empty", request.instance_id == ""),
        ("a rack id is null or a name, not empty", request.rack_id == ""),
        (f"there is no member epoch {epoch}", epoch < LEFT_FOR_A_WHILE),
        ("only static members come back", epoch == LEFT_FOR_A_WHILE and not is_static),
        ("who joins says its rebalance timeout", is_joining and request.rebalance_timeout_ms < 0),
        ("who joins has no partitions", is_joining and request.topic_partitions != []),
        ("who joins subscribes to topics or a pattern", is_joining and not has_subscription),
    ]


def beat_of(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerBeat:
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return ConsumerBeat(
        group=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.client_id or "",
        host=f"/{call.peer.host}",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else tuple(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((one.topic_id, number) for one in owned for number in one.partitions),
    )


def response_of(beaten: Beaten) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=beaten.error,
        error_message=beaten.sentence,
        member_id=beaten.member_id,
        member_epoch=beaten.epoch,
        heartbeat_interval_ms=beaten.interval_ms,
        assignment=None
        if beaten.assignment is None
        else Assignment(topic_partitions=_topics(beaten.assignment)),
    )


def _topics(spots: Iterable[Spot]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in by_topic(spots).items()
    ]
