"""The records inside a batch: full decode and encode.

A record is a varint length, then: attributes (one byte, unused), timestamp delta (varlong), offset
delta (varint), key and value (varint length, -1 for null), headers (varint count, then name and
value each). Deltas count from the batch's base timestamp and base offset.

The decoder trusts nothing: a length is held against the bytes that are left before it is used, and
every byte must be accounted for. Whatever the input, it raises this room's errors or none. Produce
and Fetch never come here; conversion, compaction, time look-ups and tests do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import error as StructError
from typing import NamedTuple, TypeAlias

from tierlog.records import attributes as bits
from tierlog.records.attributes import Codec
from tierlog.records.batch import HEADER_BYTES, BatchHeader, crc_of, parse_header
from tierlog.records.compression import compress, decompress
from tierlog.records.errors import CorruptBatch, MalformedRecords
from tierlog.records.header import HEADER, MAGIC, PREFIX_BYTES, batch_cut_short, length_too_small
from tierlog.records.limits import DEFAULT_LIMITS, Limits
from tierlog.records.varint import (
    VARINT_BYTES_MAX,
    VARLONG_BYTES_MAX,
    decode_unsigned,
    decode_varint,
    encode_varint,
)
from tierlog.types import (
    NO_PRODUCER,
    NO_TIMESTAMP,
    Bytes,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TimestampMs,
)

RecordHeader: TypeAlias = tuple[str, bytes | None]
"""Name and value. A name that is not UTF-8 keeps its bytes as surrogate escapes."""

NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_SEQUENCE = -1
FIRST_OFFSET = Offset(0)
NO_LEADER_EPOCH = LeaderEpoch(-1)
DELTA_MAX = 2**31 - 1


class Record(NamedTuple):
    """One record. Timestamp and offset are absolute."""

    offset: Offset
    timestamp: TimestampMs
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()
    attributes: int = 0


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A batch taken apart."""

    header: BatchHeader
    records: tuple[Record, ...]


def decode_batch(
    batch: Bytes, *, dense: bool = False, limits: Limits = DEFAULT_LIMITS
) -> RecordBatch:
    header = parse_header(batch)
    return RecordBatch(header, tuple(decode_records(batch, dense=dense, limits=limits)))


def decode_records(
    batch: Bytes, *, dense: bool = False, limits: Limits = DEFAULT_LIMITS
) -> list[Record]:
    """The records of the batch that `batch` begins with. The CRC is not looked at.

    Offset deltas must rise and stay within the batch. `dense` asks for 0, 1, 2 ..., as a producer
    must write them; compaction leaves gaps.
    """
    header, data = plain_records(batch, limits=limits)
    header_count_max = headers_max(header, limits=limits)
    return records_of(header, data, header_count_max=header_count_max, dense=dense)


def headers_max(header: BatchHeader, *, limits: Limits = DEFAULT_LIMITS) -> int:
    """How many headers the records of a batch may have together."""
    return max(limits.header_count_max, header.size_bytes - HEADER_BYTES)


def records_of(
    header: BatchHeader, data: bytes, *, header_count_max: int, dense: bool = False
) -> list[Record]:
    """The records of a batch, from their plain bytes."""
    try:
        records = _decode_all(header, data, header_count_max)
    except IndexError:
        raise MalformedRecords("the records end in the middle of a number") from None
    _check_offsets(header, records, dense=dense)
    _check_timestamps(records)
    return records


def plain_records(batch: Bytes, *, limits: Limits = DEFAULT_LIMITS) -> tuple[BatchHeader, bytes]:
    """The header of the batch that `batch` begins with, and its records, decompressed."""
    header = parse_header(batch)
    size = header.size_bytes
    if size < HEADER_BYTES:
        raise length_too_small(header, 0)
    if size > len(batch):
        raise batch_cut_short(batch, 0, size)
    if header.magic != MAGIC or header.attributes not in bits.STORED:
        raise CorruptBatch(f"magic {header.magic}, attributes {header.attributes:#06x}")
    return header, _payload(header, memoryview(batch)[HEADER_BYTES:size], limits)


def _payload(header: BatchHeader, data: memoryview, limits: Limits) -> bytes:
    """The records' plain bytes, once the number of records is known to be sane."""
    count_max = max(limits.record_count_max, len(data))
    if not 0 <= header.record_count <= count_max:
        raise MalformedRecords(f"{header.record_count} records; at most {count_max} are read")
    if header.record_count == 0 and not data:
        return b""  # An empty batch has no payload, whatever codec its records once had.
    return decompress(header.codec, data, limits=limits)


def _decode_all(header: BatchHeader, data: bytes, headers_left: int) -> list[Record]:
    """Every record, in one loop with the short varints inlined: calls would double its time.

    A number whose first byte lies beyond the data raises IndexError, which the caller translates.
    That a number or field runs over the end of its record is seen at the end of that record.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    size = len(data)
    position = 0
    records = []
    for _ in range(header.record_count):
        raw = data[position]
        position += 1
        if raw >= 0x80:
            raw, position = longer_varint(data, position, raw)
        end = position + (raw >> 1)
        if raw & 1 or end > size:
            raise _overrun("a record", raw, position, size)
        attributes = data[position]
        raw = data[position + 1]
        position += 2
        if raw >= 0x80:
            raw, position = decode_unsigned(
                data, position - 1, bytes_max=VARLONG_BYTES_MAX, bits=64
            )
        timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1)) if append_time is None else append_time
        raw = data[position]
        position += 1
        if raw >= 0x80:
            raw, position = longer_varint(data, position, raw)
        offset = base_offset + (raw >> 1 ^ -(raw & 1))
        raw = data[position]
        position += 1
        if raw == 1:
            key = None
        else:
            if raw >= 0x80:
                raw, position = longer_varint(data, position, raw)
            start, position = position, position + (raw >> 1)
            if raw & 1 or position > end:
                raise _overrun("a key", raw, start, end)
            key = data[start:position]
        raw = data[position]
        position += 1
        if raw == 1:
            value = None
        else:
            if raw >= 0x80:
                raw, position = longer_varint(data, position, raw)
            start, position = position, position + (raw >> 1)
            if raw & 1 or position > end:
                raise _overrun("a value", raw, start, end)
            value = data[start:position]
        raw = data[position]
        position += 1
        headers: tuple[RecordHeader, ...] = ()
        if raw:
            headers, position = _decode_headers(data, position - 1, end, headers_left)
            headers_left -= len(headers)
        if position != end:
            raise MalformedRecords(f"record should end at {end}, its fields end at {position}")
        records.append(_new(Record, (offset, timestamp, key, value, headers, attributes)))
    if position != size:
        raise MalformedRecords(f"{size - position} bytes follow the last record")
    return records


def longer_varint(data: bytes, position: int, first: int) -> tuple[int, int]:
    """A 32-bit varint of two bytes or more, `position` being that of its second."""
    second = data[position]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 1
    return decode_unsigned(data, position - 1, bytes_max=VARINT_BYTES_MAX, bits=32)


def _decode_headers(
    data: bytes, position: int, end: int, count_max: int
) -> tuple[tuple[RecordHeader, ...], int]:
    """The headers of one record; `count_max` is what the batch may still have."""
    count, position = decode_varint(data, position)
    # Two bytes is the least that a header takes: an empty name and a null.
    if not 0 <= count <= (end - position) // 2:
        raise MalformedRecords(f"{count} headers cannot stand in {end - position} bytes")
    if count > count_max:
        raise MalformedRecords(f"{count} headers in a record; the batch may have {count_max} more")
    headers = []
    for _ in range(count):
        raw = data[position]
        position += 1
        if raw >= 0x80:
            raw, position = longer_varint(data, position, raw)
        start, position = position, position + (raw >> 1)
        if raw & 1 or position > end:
            raise _overrun("a header name", raw, start, end)
        name = data[start:position].decode("utf-8", "surrogateescape")
        raw = data[position]
        position += 1
        value = None
        if raw != 1:
            if raw >= 0x80:
                raw, position = longer_varint(data, position, raw)
            start, position = position, position + (raw >> 1)
            if raw & 1 or position > end:
                raise _overrun("a header value", raw, start, end)
            value = data[start:position]
        headers.append((name, value))
    return tuple(headers), position


def _overrun(what: str, raw: int, position: int, end: int) -> MalformedRecords:
    length = raw >> 1 ^ -(raw & 1)
    return MalformedRecords(f"{what} of {length} bytes at {position} does not end by {end}")


def _check_offsets(header: BatchHeader, records: list[Record], *, dense: bool) -> None:
    base = header.base_offset
    if dense:
        wrong = [r.offset for place, r in enumerate(records, base) if r.offset != place]
        if wrong or len(records) != header.last_offset_delta + 1:
            raise MalformedRecords(f"offset deltas of {len(records)} records are not 0, 1, 2 ...")
        return
    previous = base - 1
    for record in records:
        if record.offset <= previous:
            raise MalformedRecords(f"offset {record.offset} follows offset {previous}")
        previous = record.offset
    if previous > header.last_offset:
        raise MalformedRecords(f"offset {previous} lies beyond the last, {header.last_offset}")


def _check_timestamps(records: list[Record]) -> None:
    """Base and delta have 64 bits each; only their sum can pass what we can write down."""
    latest = max((record.timestamp for record in records), default=0)
    earliest = min((record.timestamp for record in records), default=0)
    if latest >= 2**63 or earliest < -(2**63):
        raise MalformedRecords(f"timestamps from {earliest} to {latest} exceed 64 bits")


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: Offset = FIRST_OFFSET,
    last_offset: Offset | None = None,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    producer_id: ProducerId = NO_PRODUCER,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: TimestampMs | None = None,
    max_timestamp: TimestampMs | None = None,
) -> bytearray:
    """One whole batch, in memory that can be patched. Offsets of `records` are absolute.

    `last_offset` beyond the last record, gaps, and no records at all make the batch of a cleaned
    log; `max_timestamp` is for one whose latest record is gone. `ValueError` where the format
    cannot hold what is asked for.
    """
    if not records and last_offset is None:
        raise ValueError("an empty batch must say which offsets it covers")
    end = records[-1].offset if last_offset is None else last_offset
    base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    _check_encodable(records, base_offset=base_offset, last_offset=end)
    if log_append_time is not None:
        max_timestamp = log_append_time
    elif max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    payload = b"".join(
        part
        for record in records
        for part in _encode_record(record, base_offset=base_offset, base_timestamp=base_timestamp)
    )
    if records:
        payload = compress(codec, payload)
    batch = bytearray(HEADER_BYTES)
    batch += payload
    header = BatchHeader(
        base_offset=base_offset,
        length=len(batch) - PREFIX_BYTES,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec
        | (bits.LOG_APPEND_TIME if log_append_time is not None else 0)
        | (bits.TRANSACTIONAL if transactional else 0)
        | (bits.CONTROL if control else 0),
        last_offset_delta=end - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    try:
        HEADER.pack_into(batch, 0, *header)
    except StructError as error:
        raise ValueError(f"a number does not fit its field: {error}; {header}") from None
    HEADER.pack_into(batch, 0, *header._replace(crc=crc_of(batch)))
    return batch


def _check_encodable(
    records: Sequence[Record], *, base_offset: Offset, last_offset: Offset
) -> None:
    """What the varints of records would hide: they take any number, and readers refuse it."""
    previous = base_offset - 1
    for record in records:
        if record.offset <= previous:
            raise ValueError(f"offset {record.offset} follows {previous}; offsets rise from a base")
        if not 0 <= record.attributes <= 255:
            raise ValueError(f"attributes {record.attributes} of a record do not fit a byte")
        previous = record.offset
    if previous > last_offset:
        raise ValueError(f"offset {previous} lies beyond the last offset, {last_offset}")
    if last_offset - base_offset > DELTA_MAX:
        raise ValueError(f"offsets {base_offset} to {last_offset} span more than 31 bits")
    _check_timestamps_encodable([record.timestamp for record in records])


def _check_timestamps_encodable(timestamps: Sequence[TimestampMs]) -> None:
    if not timestamps:
        return
    base, earliest, latest = timestamps[0], min(timestamps), max(timestamps)
    if earliest < -(2**63) or latest >= 2**63:
        raise ValueError(f"timestamps {earliest} to {latest} exceed 64 bits")
    if earliest - base < -(2**63) or latest - base >= 2**63:
        raise ValueError(f"timestamps {earliest} to {latest} are too far from the first, {base}")


def _encode_record(record: Record, *, base_offset: int, base_timestamp: int) -> tuple[bytes, ...]:
    offset, timestamp, key, value, headers, attributes = record
    body = [
        attributes.to_bytes(),
        encode_varint(timestamp - base_timestamp),
        encode_varint(offset - base_offset),
        *_encode_field(key),
        *_encode_field(value),
        encode_varint(len(headers)),
    ]
    for name, content in headers:
        body += _encode_field(name.encode("utf-8", "surrogateescape"))
        body += _encode_field(content)
    whole = b"".join(body)
    return encode_varint(len(whole)), whole


def _encode_field(content: bytes | None) -> tuple[bytes, ...]:
    if content is None:
        return (_NULL,)
    return encode_varint(len(content)), content


_NULL = encode_varint(-1)
_new = tuple.__new__
