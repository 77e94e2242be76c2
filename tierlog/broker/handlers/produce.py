"""Produce, v3-v13 (v0-v2 are shown and refused, pitfall 2). v5 answers the log start offset; v7 is
the first with zstd; v8 tells errors by record; v9 is flexible; v10 points to the current leader
(KIP-951); v13 names topics by id.

Every batch is checked, patched in place and written before this call returns: the bytes lie in the
connection's buffer, which is used again. acks=0 is answered with nothing, and with a closed
connection when something was wrong; acks=1 at once; acks=all when the high watermark has passed. A
duplicate of an idempotent batch is answered when its first copy is durable, whatever the acks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker.acknowledging import (
    Acknowledgement,
    AlikeAcknowledgement,
    Outcome,
    Placed,
    answer_at_once,
    encoded,
    refused,
    silence,
)
from tierlog.broker.errors import (
    CodecNotAllowed,
    InternalTopic,
    InvalidAcks,
    TooMuchAtOnce,
    TransactionsNotServed,
)
from tierlog.broker.limits import REQUEST_ELEMENTS_MAX
from tierlog.broker.request import Answer, CloseConnection
from tierlog.broker.route import Route
from tierlog.errors import TierlogError
from tierlog.records.errors import InvalidRecord
from tierlog.types import Offset
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.opening import ProduceOpenings
from tierlog.wire.produce import Produced, read_produce

if TYPE_CHECKING:
    import asyncio

    from tierlog.broker.call import Call
    from tierlog.broker.request import Peer
    from tierlog.broker.topics import Topic
    from tierlog.hot import Log

API: Final = ApiKey.PRODUCE
VERSIONS: Final = (3, 13)
ZSTD_FROM: Final = 7
ZSTD: Final = 4
_ATTRIBUTES_LOW: Final = 22
"""Position of the byte of a batch that holds its codec."""

ACKS_ALL: Final = -1
UNFOLDING_S_MAX: Final = 0.1
"""Time that one request gets for batches that have to be taken apart; the rest is left for its
next try."""


def answer(frame: memoryview, position: int, call: Call) -> Answer:
    produced = read_produce(call.version, frame, position)
    if len(produced.topics) == 1 and len(produced.topics[0][1]) == 1:
        remember(frame, produced, call)
    return answer_any(produced, call)


def remember(frame: memoryview, produced: Produced, call: Call) -> None:
    """Let requests that begin like this one take the short road."""
    transactional_id, acks, timeout_ms, ((key, ((index, batch),)),) = produced
    topics = call.node.topics
    topic = topics.by_name.get(key) if isinstance(key, str) else topics.by_id.get(key)
    if (
        topic is None
        or topic.is_internal
        or not batch
        or not 0 <= index < len(topic.partitions)
        or topic.partitions[index].late is not None
        or transactional_id is not None
        or acks not in (1, ACKS_ALL)
        or call.version < ZSTD_FROM
        or (acks == ACKS_ALL and topic.config.min_insync_replicas > 1)
    ):
        return
    route = Route(
        call.node,
        topic,
        key=key,
        index=index,
        version=call.version,
        acks=acks,
        timeout_ms=timeout_ms,
        client_id=call.client_id,
        serve=answer_alike,
    )
    if call.peer.openings is None:
        call.peer.openings = ProduceOpenings()
    call.peer.openings.remember(frame, call.version, len(batch), route)


def answer_alike(batch: memoryview, route: Route, correlation_id: int, peer: Peer) -> Answer:
    """A request that begins like an earlier one, to a topic that is as it was: fewer steps."""
    try:
        base_offset, last_offset, timestamp, is_duplicate = route.append(batch)
    except TierlogError as error:
        call = route.call(correlation_id, peer)
        return encoded([(route.key, [refused(route.index, error, call)])], call)
    place = (base_offset, timestamp, route.partition.log_start)
    if route.acks != 1 or is_duplicate:
        end = Offset(last_offset + 1)
        if must_wait(route.log, end):
            return AlikeAcknowledgement(place, route, correlation_id, peer).begin(end)
    return [route.write(correlation_id, *place)]


def answer_any(produced: Produced, call: Call) -> Answer:
    transactional_id, acks, timeout_ms, topics = produced
    if sum(len(partitions) for _, partitions in topics) > REQUEST_ELEMENTS_MAX:
        raise CloseConnection(f"a produce for more than {REQUEST_ELEMENTS_MAX} partitions")
    refusal = refusal_of_all(transactional_id, acks, call)
    outcome: Outcome = []
    for key, partitions in topics:
        outcome.append((key, place_all(key, partitions, acks, refusal, call)))
    throttle_ms = call.node.space.throttle_ms
    if acks == 0:
        hang_up_on_error(outcome)
        return silence(call, throttle_ms) if throttle_ms else None
    if not throttle_ms and all(one.wait is None for _, placed in outcome for one in placed):
        return answer_at_once(outcome, call)
    return Acknowledgement(outcome, call, timeout_ms=timeout_ms).begin(throttle_ms)


def refusal_of_all(transactional_id: str | None, acks: int, call: Call) -> TierlogError | None:
    """What is wrong with the request as a whole; told for every partition of it."""
    if acks not in (0, 1, ACKS_ALL):
        return InvalidAcks(acks)
    if transactional_id is not None:
        return TransactionsNotServed("this node serves no transactions yet")
    try:
        call.node.space.check()
    except TierlogError as error:
        return error
    return None


def place_all(
    key: str | bytes,
    partitions: list[tuple[int, memoryview | None]],
    acks: int,
    refusal: TierlogError | None,
    call: Call,
) -> list[Placed]:
    """Append what came for one topic."""
    if refusal is not None:
        return [refused(index, refusal, call) for index, _ in partitions]
    try:
        topic = call.node.topics.find(key)
        if topic.is_internal:
            raise InternalTopic(topic.name)
    except TierlogError as error:
        return [refused(index, error, call) for index, _ in partitions]
    topic.stats.produces += 1
    return [place(topic, index, batch, acks, call) for index, batch in partitions]


def place(
    topic: Topic,
    index: int,
    batch: memoryview | None,
    acks: int,
    call: Call,
) -> Placed:
    """Append one batch, or say why not."""
    try:
        partition = topic.partition(index)
        if batch is None or len(batch) == 0:
            raise InvalidRecord("a produce without records")
        if call.version < ZSTD_FROM and len(batch) > _ATTRIBUTES_LOW:
            check_codec(batch)
        if acks == ACKS_ALL and topic.config.min_insync_replicas > 1:
            partition.check_replicas(topic.config.min_insync_replicas)
        if partition.must_unfold(batch):
            check_unfolding_time(call)
        appended = partition.append(batch, call.node.now_ms())
    except TierlogError as error:
        topic.stats.produce_errors += 1
        return refused(index, error, call)
    base_offset, last_offset, timestamp, is_duplicate = appended
    log = partition.log
    wait = None
    if acks == ACKS_ALL or is_duplicate:
        wait = wait_for(log, Offset(last_offset + 1))
    if not is_duplicate:
        stats = topic.stats
        stats.bytes_in += len(batch)
        stats.records_in += last_offset - base_offset + 1
    return Placed(index, base_offset, timestamp, partition.log_start, None, wait)


def must_wait(log: Log, end: Offset) -> bool:
    """Whether what lies below `end` is not durable yet, so that nobody may hear of it."""
    return end > log.visible_end


def wait_for(log: Log, end: Offset) -> asyncio.Future[None] | None:
    return log.wait_visible(end) if must_wait(log, end) else None


def check_unfolding_time(call: Call) -> None:
    """Many small batches may unfold to a lot: one request does not hold up everybody else."""
    now = call.node.env.clock.monotonic()
    if call.unfolding_since_s is None:
        call.unfolding_since_s = now
    elif now - call.unfolding_since_s > UNFOLDING_S_MAX:
        raise TooMuchAtOnce("its batches take long to look through; send this one again")


def check_codec(batch: memoryview) -> None:
    """KIP-110: who speaks an older Produce cannot have meant zstd."""
    if batch[_ATTRIBUTES_LOW] & 7 == ZSTD:
        raise CodecNotAllowed("zstd needs Produce v7 or later")


def hang_up_on_error(outcome: Outcome) -> None:
    """acks=0: the only way to tell of an error is to hang up, as Kafka does."""
    for key, partitions in outcome:
        for placed in partitions:
            if placed.error is not None:
                raise CloseConnection(f"produce with acks=0 to {key!r}: {placed.error}")
