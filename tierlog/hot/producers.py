"""What a partition remembers of its idempotent producers.

The last five batches of each: a batch that comes again is answered with the offset it got the first
time, a gap in the sequence is refused, an older producer epoch is fenced. Five, because that is how
many requests a client may have in flight. Producers that were silent for
`producer.id.expiration.ms` are forgotten. Silence is told by the broker's clock, not by record
timestamps as in Kafka: a backfill of old records must not lose its idempotence half way. Beyond
`PRODUCERS_MAX` the one that was silent longest is forgotten at once: ids are free, memory is not.

Rebuilt after a crash from the newest snapshot (`snapshot.py`) and the batches behind it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tierlog.hot.errors import ProducerFenced, SequenceOutOfOrder
from tierlog.records.header import SEQUENCE_MAX, BatchHeader
from tierlog.types import Offset, ProducerEpoch, ProducerId, TimestampMs

BATCHES_KEPT = 5

PRODUCERS_MAX = 10_000
"""Remembered by one partition, some 10 MB. Whoever is forgotten had 10,000 others write here since
its last batch. A client repeats a batch for two minutes at most by default: to be harmed, it would
need more than 80 new producers a second in its partition."""


class ProducedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp: TimestampMs


class Producer(NamedTuple):
    """Never changed, only replaced: a copy of the table is a copy of the state."""

    producer_epoch: ProducerEpoch
    batches: tuple[ProducedBatch, ...]
    """Oldest first, at least one."""
    last_seen_ms: int

    @property
    def last(self) -> ProducedBatch:
        return self.batches[-1]


Known = tuple[ProducerId, Producer]


class Producers:
    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[ProducerId, Producer] = {}
        """In the order in which they wrote last: the clock may jump."""

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Known]:
        """In order of producer id."""
        return iter(sorted(self._producers.items()))

    def copy(self) -> tuple[Known, ...]:
        """What is known now, in no order: cheap enough for the loop, to be encoded in a thread."""
        return tuple(self._producers.items())

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """None if the batch is the producer's next; the first copy if it has come before.

        A producer that is not known, new or expired, may begin anywhere, as in Kafka.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if header.producer_epoch != producer.producer_epoch:
            self._check_new_epoch(header, producer)
            return None
        base, last = header.base_sequence, header.last_sequence
        for batch in producer.batches:
            if batch.base_sequence == base and batch.last_sequence == last:
                return batch
        expected = (producer.last.last_sequence + 1) & SEQUENCE_MAX
        if base != expected:
            raise SequenceOutOfOrder(
                header.producer_id, f"sequence {base} does not follow; expected {expected}"
            )
        return None

    @staticmethod
    def _check_new_epoch(header: BatchHeader, producer: Producer) -> None:
        if header.producer_epoch < producer.producer_epoch:
            raise ProducerFenced(
                header.producer_id, got=header.producer_epoch, known=producer.producer_epoch
            )
        if header.base_sequence != 0:
            raise SequenceOutOfOrder(
                header.producer_id,
                f"a new epoch begins with sequence 0, not {header.base_sequence}",
            )

    def note(
        self, header: BatchHeader, base_offset: Offset, timestamp: TimestampMs, *, now_ms: int
    ) -> None:
        """The batch was appended at `base_offset`, or found there."""
        last_offset = base_offset + header.last_offset_delta
        batch: ProducedBatch = tuple.__new__(
            ProducedBatch,
            (header.base_sequence, header.last_sequence, base_offset, last_offset, timestamp),
        )
        producer_id, epoch = header.producer_id, header.producer_epoch
        known = self._producers.pop(producer_id, None)  # It comes back at the end.
        if known is not None and known.producer_epoch == epoch:
            batches = (*known.batches[1 - BATCHES_KEPT :], batch)
        else:
            batches = (batch,)
        self._producers[producer_id] = tuple.__new__(Producer, (epoch, batches, now_ms))
        if len(self._producers) > PRODUCERS_MAX:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        del self._producers[next(iter(self._producers))]

    def visit(self, header: BatchHeader, *, now_ms: int) -> None:
        """Recovery found a batch; control batches carry no sequence."""
        if header.has_producer and not header.is_control:
            self.note(header, header.base_offset, header.max_timestamp, now_ms=now_ms)

    def restore(self, producer_id: ProducerId, producer: Producer) -> None:
        """The most recent of those restored so far."""
        assert producer.batches, "a producer is known by what it wrote"
        self._producers[producer_id] = producer
        if len(self._producers) > PRODUCERS_MAX:
            self._forget_oldest()

    def expire(self, before_ms: int) -> int:
        """Forget producers that were last seen before `before_ms`; returns how many."""
        silent = [pid for pid, one in self._producers.items() if one.last_seen_ms < before_ms]
        for producer_id in silent:
            del self._producers[producer_id]
        return len(silent)
