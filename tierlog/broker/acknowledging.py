"""What a producer hears of its batches, and when: at once, or when they are durable.

Each partition hears what became of its own batch. What was not durable in time is answered with
REQUEST_TIMED_OUT: it may be durable later, so the client sends it again and an idempotent one is
not written twice.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from tierlog.broker.codes import code_of, sentence_of
from tierlog.broker.errors import RecordsRefused, RequestTimedOut
from tierlog.errors import TierlogError
from tierlog.wire.header import encode_response
from tierlog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tierlog.wire.produced import produced_writer

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.request import Parts, Peer
    from tierlog.broker.route import Route
    from tierlog.types import Offset

TIMEOUT_MS_MAX: Final = 300_000
"""Longest wait for a batch to be durable, whatever the client says."""
IDS_FROM: Final = 13


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


def answer_at_once(outcome: Outcome, call: Call) -> Parts:
    if len(outcome) == 1 and len(outcome[0][1]) == 1 and not call.node.space.throttle_ms:
        key, ((index, base_offset, timestamp, log_start, error, _),) = outcome[0]
        if error is None:
            write = produced_writer(call.version, key, index)
            return [write(call.correlation_id, base_offset, timestamp, log_start)]
    return encoded(outcome, call)


def refused(index: int, error: TierlogError, call: Call) -> Placed:
    call.node.stats.refuse(error)
    return Placed(index, error=error)


def silence(call: Call, throttle_ms: int) -> asyncio.Future[Parts | None]:
    """What is answered to acks=0 while the disk fills up: nothing, late. The place that this takes
    among the replies counts, and a connection that holds too much is not read from."""
    _count_throttle(call, throttle_ms)
    loop = asyncio.get_running_loop()
    pause: asyncio.Future[Parts | None] = loop.create_future()
    loop.call_later(throttle_ms / 1000, _end, pause)
    return pause


def _count_throttle(call: Call, throttle_ms: int) -> None:
    stats = call.node.stats
    stats.throttles += 1
    stats.throttled_ms += throttle_ms


class Acknowledgement:
    """An answer that waits until its batches are durable, or until its time is up."""

    __slots__ = ("_answer", "_call", "_left", "_outcome", "_timeout_ms", "_timer", "_waits")

    def __init__(self, outcome: Outcome, call: Call, *, timeout_ms: int) -> None:
        self._outcome = outcome
        self._call = call
        self._timeout_ms = limited(timeout_ms)
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
        _count_throttle(self._call, throttle_ms)
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
        fault = None if wait is None else fault_of(wait, self._timeout_ms)
        return placed if fault is None else refused(placed.partition, fault, self._call)

    def _over(self, _: asyncio.Future[Parts | None]) -> None:
        """Answered, or its peer went away: nothing is kept for it."""
        if self._timer is not None:
            self._timer.cancel()
        for wait in self._waits:
            wait.cancel()


def _end(pause: asyncio.Future[None] | asyncio.Future[Parts | None]) -> None:
    if not pause.done():
        pause.set_result(None)


class AlikeAcknowledgement:
    """The same for one batch on the short road: little is made before it is known what to say.

    It waits at the log itself, like a future, and shares a timer with the others of its route.
    """

    __slots__ = ("_answer", "_correlation_id", "_peer", "_place", "_route")

    def __init__(
        self, place: tuple[int, int, int], route: Route, correlation_id: int, peer: Peer
    ) -> None:
        """`place` is base offset, log append time and log start."""
        self._place = place
        self._route = route
        self._correlation_id = correlation_id
        self._peer = peer

    def begin(self, end: Offset) -> asyncio.Future[Parts | None]:
        """Answered once everything below `end` is visible."""
        loop = asyncio.get_running_loop()
        answer = self._answer = loop.create_future()
        route = self._route
        route.log.tell_visible(end, self)
        if not answer.done():
            route.patience.add(self, loop)
            answer.add_done_callback(self._over)
        return answer

    # What the log tells

    def done(self) -> bool:
        return self._answer.done()

    def set_result(self, _: None, /) -> None:
        route = self._route
        if route.space.throttle_ms:
            self._tell(None)
        else:
            self._answer.set_result([route.write(self._correlation_id, *self._place)])

    def set_exception(self, fault: Exception, /) -> None:
        if isinstance(fault, TierlogError):
            self._tell(fault)
        else:
            self._answer.set_exception(fault)

    # What the clock tells

    def time_up(self) -> None:
        self._tell(timed_out(limited(self._route.timeout_ms)))

    def _tell(self, fault: TierlogError | None) -> None:
        route = self._route
        call = route.call(self._correlation_id, self._peer)
        if fault is None:
            placed = Placed(route.index, *self._place)
        else:
            placed = refused(route.index, fault, call)
        self._answer.set_result(encoded([(route.key, [placed])], call))

    def _over(self, answer: asyncio.Future[Parts | None]) -> None:
        """Answered, or its peer went away: nothing is kept for it."""
        self._route.patience.leave(for_good=answer.cancelled())


def limited(timeout_ms: int) -> int:
    return min(max(timeout_ms, 0), TIMEOUT_MS_MAX)


def timed_out(timeout_ms: int) -> RequestTimedOut:
    return RequestTimedOut(f"not durable within {timeout_ms} ms; it may be so later")


def fault_of(wait: asyncio.Future[None], timeout_ms: int) -> TierlogError | None:
    """Why it cannot be said that a batch is durable; None if it is."""
    if not wait.done() or wait.cancelled():
        return timed_out(timeout_ms)
    fault = wait.exception()
    assert fault is None or isinstance(fault, TierlogError)
    return fault


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
