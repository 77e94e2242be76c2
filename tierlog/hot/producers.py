"""What a partition remembers of its idempotent producers.

The last five batches of each: a batch that comes again is answered with the offset it got the first
time, a gap in the sequence is refused, an older producer epoch is fenced. Five, because that is how
many requests a client may have in flight. Memory is bounded by expiry: producers that were silent
for `producer.id.expiration.ms` are forgotten. Silence is told by the broker's clock, not by record
timestamps as in Kafka: a backfill of old records must not lose its idempotence half way.

Rebuilt after a crash from the newest snapshot (`snapshot.py`) and the batches behind it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tierlog.hot.errors import ProducerFenced, SequenceOutOfOrder
from tierlog.records.header import SEQUENCE_MAX, BatchHeader
from tierlog.types import Offset, ProducerEpoch, ProducerId, TimestampMs

BATCHES_KEPT = 5


class ProducedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp: TimestampMs


class Producer:
    __slots__ = ("batches", "last_seen_ms", "producer_epoch")

    def __init__(
        self,
        producer_epoch: ProducerEpoch,
        batches: Iterable[ProducedBatch] = (),
        *,
        last_seen_ms: int,
    ) -> None:
        self.producer_epoch = producer_epoch
        self.last_seen_ms = last_seen_ms
        self.batches: deque[ProducedBatch] = deque(batches, maxlen=BATCHES_KEPT)

    @property
    def last(self) -> ProducedBatch:
        return self.batches[-1]


class Producers:
    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[ProducerId, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[tuple[ProducerId, Producer]]:
        """In order of producer id, so that snapshots of equal states are equal bytes."""
        return iter(sorted(self._producers.items()))

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
        batch = ProducedBatch(
            header.base_sequence,
            header.last_sequence,
            base_offset,
            Offset(base_offset + header.last_offset_delta),
            timestamp,
        )
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.producer_epoch != header.producer_epoch:
            producer = Producer(header.producer_epoch, last_seen_ms=now_ms)
            self._producers[header.producer_id] = producer
        producer.batches.append(batch)
        producer.last_seen_ms = now_ms

    def visit(self, header: BatchHeader, *, now_ms: int) -> None:
        """Recovery found a batch; control batches carry no sequence."""
        if header.has_producer and not header.is_control:
            self.note(header, header.base_offset, header.max_timestamp, now_ms=now_ms)

    def restore(self, producer_id: ProducerId, producer: Producer) -> None:
        assert producer.batches, "a producer is known by what it wrote"
        self._producers[producer_id] = producer

    def expire(self, before_ms: int) -> int:
        """Forget producers that were last seen before `before_ms`; returns how many."""
        silent = [pid for pid, one in self._producers.items() if one.last_seen_ms < before_ms]
        for producer_id in silent:
            del self._producers[producer_id]
        return len(silent)
