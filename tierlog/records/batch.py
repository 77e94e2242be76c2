"""One whole batch: the two checks, the patches, the walk over batches that lie end to end.

`validate_produced` is for bytes from a client, `validate_stored` for bytes that a broker once
wrote: there, cleaned batches (gaps between offsets), empty batches (every record compacted away)
and control batches are legal. Both look at the header and the CRC alone and decompress nothing.
What they leave unseen, the records inside, is found when someone decodes them; ADR 0006 says what
follows from that.

The good road is one unpack, one chain of comparisons and one CRC, about a microsecond beside the
CRC itself. Which check failed is worked out afterwards in `refusal.py`, which may be slow.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from crc32c import crc32c

from tierlog.records import attributes as bits
from tierlog.records import refusal
from tierlog.records.header import (
    CHECKED_FROM,
    HEADER,
    HEADER_BYTES,
    PREFIX_BYTES,
    BatchHeader,
    batch_cut_short,
    header_cut_short,
    length_too_small,
    parse_header,
)
from tierlog.records.refusal import NO_BOUND, OFFSET_MAX, may_hold, timestamps_pass
from tierlog.types import (
    NO_TIMESTAMP,
    Bytes,
    LeaderEpoch,
    Offset,
    TimestampMs,
    WritableBytes,
)

__all__ = [
    "HEADER_BYTES",
    "PREFIX_BYTES",
    "BatchHeader",
    "crc_of",
    "iter_batches",
    "parse_header",
    "patch_log_append_time",
    "patch_max_timestamp",
    "patch_offset",
    "validate_produced",
    "validate_stored",
]

# On the good roads below every look-up counts (ADR 0004 has the figures): numbers of the layout,
# which is in `header.py`, stand as literals, methods are bound in advance, and arguments may be
# passed by place, since keyword-only ones cost a slower call. The two zeros given to crc32c are its
# seed and "keep the interpreter lock": handing it over for a few microseconds is no gain.
_unpack = HEADER.unpack_from
_new = tuple.__new__
_put_place = Struct(">qii").pack_into
_CHECKED = slice(CHECKED_FROM, None)
_PRODUCED = bits.PRODUCED
_STORED = bits.STORED

_CRC = Struct(">I")
_ATTRIBUTES = Struct(">H")
_TIMESTAMP = Struct(">q")
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35


def validate_produced(
    batch: Bytes,
    size_max: int,
    timestamp_min: TimestampMs = NO_TIMESTAMP,
    timestamp_max: TimestampMs = NO_BOUND,
) -> BatchHeader:
    """Check the one batch that a produce request carries for a partition; `batch` is all of it.

    `size_max` is `max.message.bytes`. The timestamp bounds are those of KIP-937
    (`message.timestamp.before.max.ms`, `.after.max.ms`) turned into times, -1 or later; they are
    held against base and max timestamp, and a batch without timestamps passes. Base offset and
    leader epoch are not looked at: the broker overwrites them. Pass a memoryview: of bytes, the
    checked part would be copied.
    """
    try:
        fields = _unpack(batch)
    except StructError:
        raise refusal.of_produced(batch, size_max, timestamp_min, timestamp_max) from None
    (
        _,
        length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = fields
    size = len(batch)
    # Without a producer a batch cannot be transactional, which leaves the codec alone. The few
    # legal batches that fail a comparison get a second look at the same rule.
    if (
        magic == 2
        and length == size - 12
        and size <= size_max
        and record_count == last_offset_delta + 1
        and (0 < record_count * 7 <= size or may_hold(record_count, size, attributes))
        and (
            attributes <= 4
            if producer_id == -1
            else attributes in _PRODUCED and producer_id | producer_epoch | base_sequence >= 0
        )
        and (
            timestamp_min <= base_timestamp <= max_timestamp <= timestamp_max
            or timestamps_pass(base_timestamp, max_timestamp, timestamp_min, timestamp_max)
        )
        and crc32c(batch[_CHECKED], 0, 0) == crc
    ):
        return _new(BatchHeader, fields)
    raise refusal.of_produced(batch, size_max, timestamp_min, timestamp_max)


def validate_stored(buffer: Bytes, position: int = 0) -> BatchHeader:
    """Check the batch that begins at `position`; bytes after it are not looked at.

    Every failure is a `CorruptBatch`, and a `TruncatedBatch` where the buffer ends first. The
    caller compares base offset and leader epoch with what it expects: the CRC does not cover them.
    Pass a memoryview here too.
    """
    try:
        fields = _unpack(buffer, position)
    except StructError:
        raise header_cut_short(buffer, position) from None
    base_offset, length, _, magic, crc, attributes, last_delta, _, _, _, _, _, count = fields
    end = position + length + 12
    if (
        magic == 2
        and position + 61 <= end <= len(buffer)
        and 0 <= count <= last_delta + 1
        and 0 <= last_delta <= OFFSET_MAX - base_offset
        and base_offset >= 0
        and attributes in _STORED
        and crc32c(buffer[position + 21 : end], 0, 0) == crc
    ):
        return _new(BatchHeader, fields)
    raise refusal.of_stored(buffer, position)


def crc_of(batch: Bytes) -> int:
    """CRC-32C as the header should state it; `batch` is exactly one batch."""
    return crc32c(memoryview(batch)[CHECKED_FROM:], 0, 0)


def patch_offset(batch: WritableBytes, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
    """Give exactly one batch its place in the log. Outside the CRC, which stays valid."""
    # The length stands between the two, and one call is cheaper than two: write it once more.
    _put_place(batch, 0, base_offset, len(batch) - 12, leader_epoch)


def patch_log_append_time(batch: WritableBytes, *, timestamp_ms: int) -> None:
    """Stamp exactly one batch with the broker's time: type bit, max timestamp, new CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | bits.LOG_APPEND_TIME)
    patch_max_timestamp(batch, timestamp_ms=timestamp_ms)


def patch_max_timestamp(batch: WritableBytes, *, timestamp_ms: int) -> None:
    """Set the max timestamp of exactly one batch and renew its CRC."""
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, timestamp_ms)
    _CRC.pack_into(batch, _CRC_AT, crc_of(batch))


def iter_batches(buffer: Bytes, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Walk batches that lie end to end, yielding (position, header); checks bounds, not CRCs.

    `TruncatedBatch` when the last one is cut off, so a caller that reads by byte limit passes
    only whole batches or catches it; `CorruptBatch` when a length field is below the minimum.
    """
    end = len(buffer)
    while position < end:
        header = parse_header(buffer, position)
        size = header.length + PREFIX_BYTES
        if size < HEADER_BYTES:
            raise length_too_small(header, position)
        if position + size > end:
            raise batch_cut_short(buffer, position, size)
        yield position, header
        position += size
