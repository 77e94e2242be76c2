"""Why a batch was refused: the cold half of the checks in `batch.py`.

Called only when a check has failed, so it may take its time. Bytes come before meaning: a batch
whose CRC is wrong is reported as damaged, whatever nonsense its fields then say.
"""

from crc32c import crc32c

from tierlog.records import attributes as bits
from tierlog.records.attributes import Codec
from tierlog.records.errors import (
    BatchError,
    BatchTooLarge,
    ChecksumMismatch,
    CorruptBatch,
    CorruptProduce,
    InvalidRecord,
    InvalidTimestamp,
    UnsupportedMagic,
)
from tierlog.records.header import (
    CHECKED_FROM,
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    batch_cut_short,
    header_cut_short,
    length_too_small,
    parse_header,
)
from tierlog.records.limits import DEFAULT_LIMITS
from tierlog.types import Bytes, TimestampMs

OFFSET_MAX = 2**63 - 1
NO_BOUND = TimestampMs(2**63 - 1)

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, key length, value length, header count: one byte each."""

_MAGIC_AT = 16


def may_hold(record_count: int, size_bytes: int, attributes: int) -> bool:
    """Whether so many records fit: plainly, or after the largest legal decompression.

    Rough (the header's bytes count as records), since it only has to stop the absurd: a count that
    lies takes up offsets by the thousand million, and they are never given back.
    """
    if attributes & bits.CODEC_MASK != Codec.NONE:
        size_bytes = DEFAULT_LIMITS.inflated_bytes_max(size_bytes)
        size_bytes = min(size_bytes, DEFAULT_LIMITS.record_count_max * RECORD_BYTES_MIN)
    return 0 < record_count * RECORD_BYTES_MIN <= size_bytes


def timestamps_pass(base: int, highest: int, earliest: int, latest: int) -> bool:
    """The whole rule, -1 for "none" included; in the order of the fields."""
    return (
        (base == -1 or max(earliest, 0) <= base <= latest)
        # -1 beside a real base: the writer leaves the field to the broker, as Kafka lets it.
        and (highest == -1 or max(base, 0) <= highest <= latest)
    )


def of_produced(batch: Bytes, size_max: int, timestamp_min: int, timestamp_max: int) -> BatchError:
    """The first check of `validate_produced` that this batch fails."""
    if (error := _produced_bytes(batch, size_max)) is not None:
        return error
    header = parse_header(batch)
    return (
        _count(header)
        or _attributes(header)
        or _producer(header)
        or _timestamps(header, timestamp_min, timestamp_max)
        or _passes_after_all()
    )


def of_stored(buffer: Bytes, position: int) -> CorruptBatch:
    """The first check of `validate_stored` that this batch fails."""
    header = parse_header(buffer, position)
    if header.magic != MAGIC:
        return _damaged(position, f"magic {header.magic} is not 2")
    if (error := _checked_bytes(buffer, position, header)) is not None:
        return error
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        count = f"{header.record_count} records"
        return _damaged(position, f"{count} with last offset delta {header.last_offset_delta}")
    if not 0 <= header.last_offset_delta <= OFFSET_MAX - header.base_offset:
        return _damaged(position, f"last offset delta {header.last_offset_delta} out of range")
    if header.base_offset < 0:
        return _damaged(position, f"base offset {header.base_offset} is negative")
    if header.attributes not in bits.STORED:
        return _damaged(position, f"attributes {header.attributes:#06x} are unknown")
    return _passes_after_all()


def _produced_bytes(batch: Bytes, size_max: int) -> BatchError | None:
    """Size, format and checksum: what a fault on the way can break."""
    # Formats 0 and 1 keep their magic at the same place, and may be shorter than our header.
    if len(batch) > _MAGIC_AT and (magic := batch[_MAGIC_AT]) != MAGIC:
        return UnsupportedMagic(magic=magic)
    if len(batch) < HEADER_BYTES:
        return CorruptProduce(header_cut_short(batch, 0))
    header = parse_header(batch)
    if len(batch) > size_max:
        return BatchTooLarge(size_bytes=len(batch), size_bytes_max=size_max)
    if (fault := _checked_bytes(batch, 0, header)) is not None:
        return CorruptProduce(fault)
    if header.size_bytes < len(batch):
        after = len(batch) - header.size_bytes
        return InvalidRecord(f"{after} bytes follow the batch; a produce carries exactly one batch")
    return None


def _checked_bytes(buffer: Bytes, position: int, header: BatchHeader) -> CorruptBatch | None:
    if header.size_bytes < HEADER_BYTES:
        return length_too_small(header, position)
    if position + header.size_bytes > len(buffer):
        return batch_cut_short(buffer, position, header.size_bytes)
    end = position + header.size_bytes
    actual = crc32c(memoryview(buffer)[position + CHECKED_FROM : end])
    if actual != header.crc:
        return ChecksumMismatch(position=position, expected=header.crc, actual=actual)
    return None


def _count(header: BatchHeader) -> InvalidRecord | None:
    count, delta = header.record_count, header.last_offset_delta
    if count < 1:
        return InvalidRecord(f"record count {count}; a produced batch holds at least one")
    if count != delta + 1:
        return InvalidRecord(f"record count {count} does not fit last offset delta {delta}")
    if not may_hold(count, header.size_bytes, header.attributes):
        return InvalidRecord(f"{count} records cannot stand in {header.size_bytes} bytes")
    return None


def _attributes(header: BatchHeader) -> InvalidRecord | None:
    attributes = header.attributes
    if attributes & ~bits.KNOWN:
        return InvalidRecord(f"attributes {attributes:#06x} have bits without a meaning")
    if attributes & bits.CODEC_MASK > Codec.ZSTD:
        return InvalidRecord(f"codec {attributes & bits.CODEC_MASK} is unknown")
    if header.is_control:
        return InvalidRecord("only a broker may write control batches")
    if header.has_delete_horizon:
        return InvalidRecord("only a broker may set a delete horizon")
    if header.is_log_append_time:
        # Kafka refuses it too: the type says that a broker's clock was read.
        return InvalidTimestamp("only a broker may set the timestamp type to log append time")
    return None


def _producer(header: BatchHeader) -> InvalidRecord | None:
    producer_id = header.producer_id
    if producer_id < -1:
        return InvalidRecord(f"producer id {producer_id} is below -1")
    if producer_id == -1:
        # Epoch and sequence mean nothing then. Java and librdkafka send -1, Sarama sequence 0.
        if header.is_transactional:
            return InvalidRecord("transactional batch without a producer id")
        return None
    if header.producer_epoch < 0:
        return InvalidRecord(f"producer {producer_id} with epoch {header.producer_epoch}")
    if header.base_sequence < 0:
        return InvalidRecord(f"producer {producer_id} with sequence {header.base_sequence}")
    return None


def _timestamps(
    header: BatchHeader, timestamp_min: int, timestamp_max: int
) -> InvalidTimestamp | None:
    base, highest = header.base_timestamp, header.max_timestamp
    if timestamps_pass(base, highest, timestamp_min, timestamp_max):
        return None
    if base < -1 or highest < -1:
        return InvalidTimestamp(f"timestamps {base} and {highest}; below -1 there is no time")
    if -1 < highest < base:
        return InvalidTimestamp(f"max timestamp {highest} is below base timestamp {base}")
    return InvalidTimestamp(
        f"timestamps {base} to {highest} are not within {timestamp_min} to {timestamp_max}"
    )


def _damaged(position: int, what: str) -> CorruptBatch:
    return CorruptBatch(f"batch at position {position}: {what}", position=position)


def _passes_after_all() -> CorruptBatch:
    """Both halves of a check must agree; property tests hold them together."""
    raise AssertionError("the batch was refused, but no check fails")
