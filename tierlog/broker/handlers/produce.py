"""Produce, v3-v13 (v0-v2 are shown and refused, pitfall 2). v5 answers the log start offset; v7 is
the first with zstd; v8 tells errors by record; v9 is flexible; v10 points to the current leader
(KIP-951); v13 names topics by id.

Every batch is checked, patched in place and written before this call returns: the bytes lie in the
connection's buffer, which is used again. acks=0 is answered with nothing, and with a closed
connection when something was wrong; acks=1 at once; acks=all when the high watermark has passed. A
duplicate of an idempotent batch is answered when its first copy is durable, whatever the acks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from tierlog.broker.codes import code_of, sentence_of
from tierlog.broker.errors import (
    CodecNotAllowed,
    InternalTopic,
    InvalidAcks,
    RecordsRefused,
    RequestTimedOut,
    TooMuchAtOnce,
    TransactionsNotServed,
)
from tierlog.broker.limits import REQUEST_ELEMENTS_MAX
from tierlog.broker.request import Answer, CloseConnection, Parts
from tierlog.broker.route import Route
from tierlog.errors import TierlogError
from tierlog.records.errors import InvalidRecord
from tierlog.types import Offset
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.header import encode_response
from tierlog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tierlog.wire.opening import ProduceOpenings
from tierlog.wire.produce import Produced, read_produce
from tierlog.wire.produced import encode_produced

if TYPE_CHECKING:
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
TIMEOUT_MS_MAX: Final = 300_000
"""Longest wait for a batch to be durable, whatever the client says."""
UNFOLDING_S_MAX: Final = 0.1
"""Time that one request gets for batches that have to be taken apart; the rest is left for its
next try."""


class Placed(NamedTuple):
    """What became of one partition's batch."""

    partition: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start: int = -1
    error: TierlogError | None = None
    wait: asyncio.Future[None] | None = None
    """Done when it is durable, for those who hear only then."""


Outcome = list[tuple[str | bytes, list[Placed]]]


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
        appended = route.append(batch)
    except TierlogError as error:
        call = route.call(correlation_id, peer)
        return encoded([(route.key, [refused(route.index, error, call)])], call)
    if route.acks == 1 and not appended[3]:
        return [route.answer(appended, correlation_id)]
    log = route.log
    wait = wait_for(log, Offset(appended.last_offset + 1))
    if wait is None:
        return [route.answer(appended, correlation_id)]
    base_offset, timestamp = appended.base_offset, appended.timestamp
    log_start = route.partition.log_start
    placed = Placed(route.index, base_offset, timestamp, log_start, wait=wait)
    call = route.call(correlation_id, peer)
    outcome: Outcome = [(route.key, [placed])]
    return Acknowledgement(outcome, call, timeout_ms=route.timeout_ms).begin(0)


def answer_any(produced: Produced, call: Call) -> Answer:
    transactional_id, acks, timeout_ms, topics = produced
    if sum(len(partitions) for _, partitions in topics) > REQUEST_ELEMENTS_MAX:
        raise CloseConnection(f"a produce for more than {REQUEST_ELEMENTS_MAX} partitions")
    refusal = refusal_of_all(transactional_id, acks, call)
    outcome: Outcome = []
    for key, partitions in topics:
        outcome.append((key, place_all(key, partitions, acks, refusal, call)))
    if acks == 0:
        hang_up_on_error(outcome)
        return None
    throttle_ms = call.node.space.throttle_ms
    if not throttle_ms and all(one.wait is None for _, placed in outcome for one in placed):
        return answer_at_once(outcome, call)
    return Acknowledgement(outcome, call, timeout_ms=timeout_ms).begin(throttle_ms)


def answer_at_once(outcome: Outcome, call: Call) -> Parts:
    if len(outcome) == 1 and len(outcome[0][1]) == 1 and not call.node.space.throttle_ms:
        key, ((index, base_offset, timestamp, log_start, error, _),) = outcome[0]
        if error is None:
            return [
                encode_produced(
                    call.version, call.correlation_id, key, index, base_offset, timestamp, log_start
                )
            ]
    return encoded(outcome, call)


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


def refused(index: int, error: TierlogError, call: Call) -> Placed:
    call.node.stats.refuse(error)
    return Placed(index, error=error)


def wait_for(log: Log, end: Offset) -> asyncio.Future[None] | None:
    return log.wait_visible(end) if end > log.visible_end else None


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


class Acknowledgement:
    """An answer that waits until its batches are durable, or until its time is up.

    Each partition hears what became of its own batch. What was not durable in time is answered with
    REQUEST_TIMED_OUT: it may be durable later, so the client sends it again and an idempotent one
    is not written twice.
    """

    __slots__ = ("_answer", "_call", "_left", "_outcome", "_timeout_ms", "_timer", "_waits")

    def __init__(self, outcome: Outcome, call: Call, *, timeout_ms: int) -> None:
        self._outcome = outcome
        self._call = call
        self._timeout_ms = min(max(timeout_ms, 0), TIMEOUT_MS_MAX)
        self._waits = [one.wait for _, placed in outcome for one in placed if one.wait is not None]
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, throttle_ms: int) -> asyncio.Future[Parts | None]:
        loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Parts | None] = loop.create_future()
        if throttle_ms:
            self._throttle(loop, throttle_ms)
        self._left = len(self._waits)
        for wait in self._waits:
            wait.add_done_callback(self._one_done)
        if self._waits:
            self._timer = loop.call_later(self._timeout_ms / 1000, self._finish)
        self._answer.add_done_callback(self._over)
        return self._answer

    def _throttle(self, loop: asyncio.AbstractEventLoop, throttle_ms: int) -> None:
        """The disk fills up: whoever writes waits a little for the answer."""
        stats = self._call.node.stats
        stats.throttles += 1
        stats.throttled_ms += throttle_ms
        pause: asyncio.Future[None] = loop.create_future()
        loop.call_later(throttle_ms / 1000, _end, pause)
        self._waits.append(pause)
        self._timeout_ms = max(self._timeout_ms, 2 * throttle_ms)

    def _one_done(self, wait: asyncio.Future[None]) -> None:
        if wait.cancelled() or self._answer.done():
            return
        fault = wait.exception()
        if fault is not None and not isinstance(fault, TierlogError):
            self._answer.set_exception(fault)
            return
        self._left -= 1
        if not self._left:
            self._finish()

    def _finish(self) -> None:
        """Everything is done, or the time is up."""
        if not self._answer.done():
            outcome = [
                (key, [self._settled(one) for one in placed]) for key, placed in self._outcome
            ]
            self._answer.set_result(answer_at_once(outcome, self._call))

    def _settled(self, placed: Placed) -> Placed:
        """Nobody hears "done" of something that may not be."""
        wait = placed.wait
        if wait is None:
            return placed
        fault: BaseException | None = RequestTimedOut(
            f"not durable within {self._timeout_ms} ms; it may be so later"
        )
        if wait.done() and not wait.cancelled():
            fault = wait.exception()
        if fault is None:
            return placed
        assert isinstance(fault, TierlogError)
        return refused(placed.partition, fault, self._call)

    def _over(self, _: asyncio.Future[Parts | None]) -> None:
        """Answered, or its peer went away: nothing is kept for it."""
        if self._timer is not None:
            self._timer.cancel()
        for wait in self._waits:
            wait.cancel()


def _end(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)


def encoded(outcome: Outcome, call: Call) -> Parts:
    by_id = call.version >= IDS_FROM
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(
                **{"topic_id" if by_id else "name": key},  # type: ignore[arg-type]  # as the request
                partition_responses=[described(placed) for placed in partitions],
            )
            for key, partitions in outcome
        ],
        throttle_time_ms=call.node.space.throttle_ms,
    )
    return encode_response(response, call.version, correlation_id=call.correlation_id)


IDS_FROM: Final = 13


def described(placed: Placed) -> PartitionProduceResponse:
    error = placed.error
    if error is None:
        return PartitionProduceResponse(
            index=placed.partition,
            error_code=0,
            base_offset=placed.base_offset,
            log_append_time_ms=placed.log_append_time_ms,
            log_start_offset=placed.log_start,
        )
    records = error.records if isinstance(error, RecordsRefused) else []
    return PartitionProduceResponse(
        index=placed.partition,
        error_code=code_of(error),
        base_offset=-1,
        error_message=sentence_of(error),
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=sentence)
            for number, sentence in records
        ],
    )
