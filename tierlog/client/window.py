"""The batches of one partition that are under way, and their sequence numbers. No I/O.

An idempotent producer numbers the records of each partition under its producer id and producer
epoch. The broker takes a batch only if it follows the last one, and recognises a repeated batch by
its numbers. So a batch keeps its bytes for as long as it may have been written, batches are
repeated in their order, and nothing new is sent past a batch in trouble:

- `admit` gives a batch its numbers; at most five are in the window, as many as brokers remember.
- When one fails, the window is left to drain: every batch gets its answer or loses its connection.
- `settle` then decides: which batches are repeated as they are, which have failed for good.

A batch is *doubtful* once an attempt ended without saying whether it was written. One that is given
up and is not doubtful leaves a hole that nothing fills: none behind it can be written under its old
numbers, so a new producer epoch begins at sequence 0 and the rest is numbered anew (KIP-360). One
that is given up in doubt leaves the question open (`_gap`): those behind it are repeated as they
are, and nothing new is admitted, until one of them is written (then it was, too) or refused as out
of order (then it was not).

A doubtful batch is never numbered anew unless one before it was surely not written: its old copy
may reach the broker before the new epoch does. Kafka's own clients take that risk of a duplicate;
here the batch fails with a "maybe".
"""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tierlog.client.certainty import surely_not_written
from tierlog.client.errors import (
    BrokerError,
    ClientError,
    DeliveryUnknown,
    NotConnected,
    OutcomeUnknown,
    ProducerFailed,
)
from tierlog.client.values import Placed
from tierlog.records.attributes import Codec
from tierlog.records.header import SEQUENCE_MAX
from tierlog.records.record import NO_PRODUCER_EPOCH, NO_SEQUENCE, Record, encode_batch
from tierlog.types import NO_PRODUCER, Bytes, ProducerEpoch, ProducerId
from tierlog.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    import asyncio

PRODUCER_EPOCH_MAX = 2**15 - 1

LOST_TRACK = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The broker's memory of this producer does not fit the batch."""

ENDS_THE_PRODUCER = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


@dataclass(slots=True, eq=False)
class Batch:
    """Records that travel together, and those who wait for them."""

    begun_at: float
    deadline: float
    records: list[Record] = field(default_factory=list)
    waiters: "list[asyncio.Future[Placed]]" = field(default_factory=list)
    size_bytes: int = 0
    data: Bytes = b""
    """The encoded batch, once it is admitted."""
    base_sequence: int = NO_SEQUENCE
    is_out: bool = False
    """Sent, and neither answered nor lost."""
    is_doubtful: bool = False
    fault: ClientError | None = None
    """Why the last attempt failed."""

    def succeed(self, partition: int, base_offset: int) -> None:
        for place, waiter in enumerate(self.waiters):
            if not waiter.done():
                offset = -1 if base_offset < 0 else base_offset + place
                waiter.set_result(Placed(partition, offset))

    def fail(self, error: ClientError) -> None:
        told = self._told(error)
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(told)
                waiter.exception()  # Whoever does not wait for it need not hear of it.

    def _told(self, error: ClientError) -> ClientError:
        """A "no" only where it is sure."""
        in_doubt = self.is_doubtful or self.is_out
        if in_doubt and not isinstance(error, OutcomeUnknown):
            return DeliveryUnknown(str(error))
        return error


@dataclass(frozen=True, slots=True)
class Identity:
    """Who writes: the id is the broker's, the epoch is raised by us."""

    producer_id: ProducerId = NO_PRODUCER
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    def raised(self) -> "Identity":
        return Identity(self.producer_id, ProducerEpoch(self.producer_epoch + 1))


class Window:
    """See the module."""

    def __init__(self, *, idempotent: bool, codec: Codec, acks: int, size_max: int) -> None:
        self.batches: deque[Batch] = deque()
        self.wants_identity = idempotent
        """Nothing may be admitted or sent before `adopt`."""
        self.identity = Identity()
        self._idempotent = idempotent
        self._codec = codec
        self._acks = acks
        # Without sequence numbers a repeated batch could overtake: one at a time keeps the order.
        self._size_max = size_max if idempotent else 1
        self._next_sequence = 0
        self._gap = False
        self._proven = not idempotent
        """Something was written under the present numbers."""

    @property
    def is_in_trouble(self) -> bool:
        return any(batch.fault is not None for batch in self.batches)

    @property
    def is_drained(self) -> bool:
        return not any(batch.is_out for batch in self.batches)

    @property
    def has_room(self) -> bool:
        """Whether a new batch may be admitted: not while older ones are in trouble or in doubt."""
        blocked = self.wants_identity or self._gap or self.is_in_trouble
        limit = self._size_max if self._proven else 1
        return len(self.batches) < limit and not blocked

    def adopt(self, identity: Identity) -> None:
        """Begin at sequence 0 under a new id or epoch; what is in the window is numbered anew."""
        self.identity = identity
        self.wants_identity = False
        self._next_sequence = 0
        self._gap = False
        self._proven = False
        for batch in self.batches:
            self._number(batch)

    def admit(self, batch: Batch) -> None:
        assert self.has_room
        self._number(batch)
        self.batches.append(batch)

    def to_send(self) -> list[Batch]:
        """In order; all of them lie behind those that are out.

        The first batch under new numbers goes alone: a broker that knows nothing of a producer
        takes any sequence, so a second one could be written where the first was refused.
        """
        waiting = [batch for batch in self.batches if not batch.is_out]
        if self._proven:
            return waiting
        return waiting[:1] if len(waiting) == len(self.batches) else []

    # What comes back

    def written(self, batch: Batch) -> None:
        """The broker has it, hence everything numbered before it."""
        batch.is_out = False
        self._gap = False
        self._proven = True
        self.batches.remove(batch)

    def refused(self, batch: Batch, error: ClientError) -> None:
        """The attempt failed; what becomes of the batch is decided when the window is drained."""
        batch.is_out = False
        batch.fault = error
        if not surely_not_written(error, acks=self._acks):
            batch.is_doubtful = True

    def unsent(self, error: ClientError) -> None:
        """Nothing could be sent at all."""
        for batch in self.to_send():
            batch.fault = error

    def settle(self, *, now: float) -> list[tuple[Batch, ClientError]]:
        """Decide on a drained window. Returns what is given up; the rest is to be sent again."""
        assert self.is_drained
        lost: list[tuple[Batch, ClientError]] = []
        while self.batches and (error := self._objection(self.batches[0], now)) is not None:
            if not self._renumbers(self.batches[0], error, now):
                lost.append((self._give_up_head(), error))
        if self._gap and not self.batches:
            self._begin_epoch()
        for batch in self.batches:
            batch.fault = None
        return lost

    def _objection(self, head: Batch, now: float) -> ClientError | None:
        """What speaks against repeating the first batch as it is."""
        if now >= head.deadline:
            return head.fault or NotConnected("not sent before the delivery timeout")
        if head.fault is None:
            return None
        may_repeat = self._idempotent or not head.is_doubtful
        return None if head.fault.retriable and may_repeat else head.fault

    def _renumbers(self, head: Batch, error: ClientError, now: float) -> bool:
        """The broker's memory ends before this batch, and the batch was surely not written."""
        if (
            not self._idempotent
            or head.is_doubtful
            or now >= head.deadline
            or not lost_track(error)
        ):
            return False
        self._begin_epoch()
        return True

    def _give_up_head(self) -> Batch:
        head = self.batches.popleft()
        if self._idempotent and head.is_doubtful:
            self._gap = True
        elif self._idempotent:
            self._begin_epoch()
        return head

    def _begin_epoch(self) -> None:
        for batch in self.batches:
            # Under the old numbers they can no longer be written, whatever was feared of them.
            batch.is_doubtful = False
            if batch.fault is not None and lost_track(batch.fault):
                batch.fault = None
        if self.identity.producer_epoch >= PRODUCER_EPOCH_MAX:
            self.wants_identity = True
            self._gap = False
        else:
            self.adopt(self.identity.raised())

    def _number(self, batch: Batch) -> None:
        batch.base_sequence = self._next_sequence if self._idempotent else NO_SEQUENCE
        batch.data = encode_batch(
            batch.records,
            codec=self._codec,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=batch.base_sequence,
        )
        self._next_sequence = (self._next_sequence + len(batch.records)) & SEQUENCE_MAX


def lost_track(error: ClientError) -> bool:
    return isinstance(error, BrokerError) and error.code in LOST_TRACK


def ends_producer(error: ClientError) -> ProducerFailed | None:
    if isinstance(error, BrokerError) and error.code in ENDS_THE_PRODUCER:
        return ProducerFailed(str(error))
    return None
