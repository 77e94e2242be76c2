"""The header of a record batch, format version 2.

Sixty-one bytes, big-endian, then the records:

    0 base offset i64 | 8 length i32, of what follows it | 12 leader epoch i32 | 16 magic i8 = 2
    17 CRC-32C u32, of everything from 21 | 21 attributes u16 | 23 last offset delta i32
    27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64 | 51 producer epoch i16
    53 base sequence i32 | 57 record count i32

The first 21 bytes lie outside the checksum. So a leader patches base offset and leader epoch for
free, and a flipped bit in them is NOT caught by the CRC: whoever reads a batch from disk or bucket
also compares its base offset with the place where it was found.

The checks and patches of a whole batch are in `batch.py`, the records inside in `record.py`.
"""

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from tierlog.records import attributes as bits
from tierlog.records.attributes import Codec
from tierlog.records.errors import CorruptBatch, TruncatedBatch
from tierlog.types import (
    Bytes,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TimestampMs,
)

HEADER: Final = Struct(">qiibIHiqqqhii")
HEADER_BYTES: Final = 61
assert HEADER.size == HEADER_BYTES

PREFIX_BYTES: Final = 12
"""Base offset and length field: what must be read to know a batch's size."""

CHECKED_FROM: Final = 21
"""The first byte that the CRC covers."""

MAGIC: Final = 2
SEQUENCE_MAX: Final = 2**31 - 1


class BatchHeader(NamedTuple):
    """A header as it stands on the wire. Cheap to build: the tuple that struct returns, renamed."""

    base_offset: Offset
    length: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: TimestampMs
    max_timestamp: TimestampMs
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Of the whole batch, prefix included."""
        return self.length + PREFIX_BYTES

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        """Base offset of the batch that follows: exclusive end of this one."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def codec(self) -> Codec:
        """ValueError for the numbers 5-7, which no checked batch has."""
        return Codec(self.attributes & bits.CODEC_MASK)

    @property
    def is_log_append_time(self) -> bool:
        """All records carry `max_timestamp`, whatever their own deltas say."""
        return self.attributes & bits.LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & bits.TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & bits.CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """KIP-534: the base timestamp is the time at which tombstones may go."""
        return self.attributes & bits.DELETE_HORIZON != 0

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def lacks_max_timestamp(self) -> bool:
        """The writer left the field empty though its records have timestamps.

        Sarama did so for every batch until early 2025. Kafka's broker fills the field in; see
        `timestamps.fill_max_timestamp`.
        """
        return self.max_timestamp < 0 <= self.base_timestamp


def parse_header(buffer: Bytes, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked. `TruncatedBatch` when fewer than 61 bytes are there."""
    try:
        return tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
    except StructError:
        raise header_cut_short(buffer, position) from None


def header_cut_short(buffer: Bytes, position: int) -> TruncatedBatch:
    present = max(0, len(buffer) - position)
    return TruncatedBatch(
        f"batch at position {position}: {present} bytes, a header alone has {HEADER_BYTES}",
        position=position,
        needed=HEADER_BYTES,
        present=present,
    )


def batch_cut_short(buffer: Bytes, position: int, size: int) -> TruncatedBatch:
    present = len(buffer) - position
    return TruncatedBatch(
        f"batch at position {position} has {size} bytes, only {present} are there",
        position=position,
        needed=size,
        present=present,
    )


def length_too_small(header: BatchHeader, position: int) -> CorruptBatch:
    return CorruptBatch(
        f"batch at position {position}: length field {header.length}, "
        f"at least {HEADER_BYTES - PREFIX_BYTES} is needed for the header",
        position=position,
    )
