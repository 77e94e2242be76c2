"""Producer snapshots: `{offset:020d}.snapshot`, the producers' state up to that offset.

Kafka's format, version 1, big-endian: version i16, CRC-32C u32 of everything behind it, count i32,
then per producer: id i64, epoch i16, last sequence i32, last offset i64, offset delta i32,
timestamp i64, coordinator epoch i32, first offset of the open transaction i64. Kafka keeps only the
last batch of a producer there; the earlier ones follow as a section of our own, which Kafka's
reader does not look at: per producer the time it was last seen i64, a count i8 and that many of
(base sequence i32, last sequence i32, base offset i64, last offset i64, timestamp i64), oldest
first. So a retry of any of the last five batches is recognised after a restart too.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

from crc32c import crc32c

from tierlog.hot.producers import Known, ProducedBatch, Producer, Producers
from tierlog.records.header import SEQUENCE_MAX
from tierlog.types import Bytes, Offset, ProducerEpoch, ProducerId, TimestampMs

VERSION = 1
HEAD = Struct(">hI")
COUNT = Struct(">i")
PRODUCER = Struct(">qhiqiqiq")
EARLIER_COUNT = Struct(">qb")
EARLIER = Struct(">iiqqq")
NO_COORDINATOR = -1
NO_TRANSACTION = -1


def encode_snapshot(producers: Iterable[Known]) -> bytes:
    """In order of producer id, so that snapshots of equal states are equal bytes."""
    known = sorted(producers)
    body = bytearray(COUNT.pack(len(known)))
    for producer_id, producer in known:
        body += _encode_last(producer_id, producer)
    for _, producer in known:
        earlier = producer.batches[:-1]
        body += EARLIER_COUNT.pack(producer.last_seen_ms, len(earlier))
        for batch in earlier:
            body += EARLIER.pack(*batch)
    return HEAD.pack(VERSION, crc32c(body)) + body


def _encode_last(producer_id: ProducerId, producer: Producer) -> bytes:
    last = producer.last
    return PRODUCER.pack(
        producer_id,
        producer.producer_epoch,
        last.last_sequence,
        last.last_offset,
        last.last_offset - last.base_offset,
        last.timestamp,
        NO_COORDINATOR,
        NO_TRANSACTION,
    )


def decode_snapshot(data: Bytes) -> Producers | None:
    """The state a snapshot holds, or None when it is damaged or of a newer version."""
    try:
        version, crc = HEAD.unpack_from(data)
        if version != VERSION or crc32c(memoryview(data)[HEAD.size :]) != crc:
            return None
        return _decode_body(data)
    except StructError:
        return None


def _decode_body(data: Bytes) -> Producers:
    (count,) = COUNT.unpack_from(data, HEAD.size)
    lasts = HEAD.size + COUNT.size
    position = lasts + count * PRODUCER.size
    found: list[Known] = []
    for number in range(count):
        producer_id, epoch, last = _decode_last(data, lasts + number * PRODUCER.size)
        batches, last_seen_ms, position = _decode_earlier(data, position, last)
        found.append((producer_id, Producer(epoch, batches, last_seen_ms)))
    producers = Producers()
    for producer_id, producer in sorted(found, key=lambda one: one[1].last_seen_ms):
        producers.restore(producer_id, producer)
    return producers


def _decode_last(data: Bytes, position: int) -> tuple[ProducerId, ProducerEpoch, ProducedBatch]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, *_ = PRODUCER.unpack_from(
        data, position
    )
    batch = ProducedBatch(
        (last_sequence - delta) & SEQUENCE_MAX,
        last_sequence,
        Offset(last_offset - delta),
        Offset(last_offset),
        TimestampMs(timestamp),
    )
    return ProducerId(producer_id), ProducerEpoch(epoch), batch


def _decode_earlier(
    data: Bytes, position: int, last: ProducedBatch
) -> tuple[tuple[ProducedBatch, ...], int, int]:
    """All batches of a producer, when it was last seen, and the position of the next one."""
    if position == len(data):
        return (last,), last.timestamp, position  # Written by Kafka, which keeps only the last.
    last_seen_ms, count = EARLIER_COUNT.unpack_from(data, position)
    position += EARLIER_COUNT.size
    batches = [
        ProducedBatch(*EARLIER.unpack_from(data, position + number * EARLIER.size))
        for number in range(count)
    ]
    return (*batches, last), last_seen_ms, position + count * EARLIER.size
