"""Keys of a batch, and the batch without some of its records: what compaction needs of a batch.

`skim_batch` finds for every record its key, whether it has a value, and where it stands, without
taking it apart any further. `without_others` writes the batch anew with some of its records: their
bytes are copied, base offset and last offset delta stay, so that every record keeps its offset and
the batch its place and its sequence numbers. Records are compressed with the codec they came with.

KIP-534: where a batch gets a delete horizon, its base timestamp is that moment; the timestamps of
records, which count from it, are written anew and stay what they were.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tierlog.records import attributes as bits
from tierlog.records.batch import crc_of
from tierlog.records.compression import compress
from tierlog.records.errors import MalformedRecords
from tierlog.records.header import HEADER, HEADER_BYTES, PREFIX_BYTES, BatchHeader
from tierlog.records.limits import DEFAULT_LIMITS, Limits
from tierlog.records.record import longer_varint, plain_records
from tierlog.records.varint import decode_varlong, encode_varint
from tierlog.types import NO_TIMESTAMP, Bytes, Offset, TimestampMs

TIME_MAX = 2**63 - 1


class KeyedRecord(NamedTuple):
    """Of one record, as far as compaction cares. Places count in the plain bytes of its batch."""

    offset: Offset
    key: bytes | None
    has_value: bool
    timestamp_delta: int
    start: int
    """Of its length."""
    body: int
    """Of its attributes, behind the length."""
    rest: int
    """Of what follows the timestamp."""
    end: int


class Skimmed(NamedTuple):
    header: BatchHeader
    data: bytes
    """Its records, plain."""
    records: list[KeyedRecord]


def skim_batch(batch: Bytes, *, limits: Limits = DEFAULT_LIMITS) -> Skimmed:
    """The records of the batch that `batch` begins with. The CRC is not looked at.

    Raises what decoding raises where lengths, keys or offsets make no sense; record headers are
    passed over.
    """
    header, data = plain_records(batch, limits=limits)
    try:
        records = _skim_all(header, data)
    except IndexError:
        raise MalformedRecords("the records end in the middle of a number") from None
    return Skimmed(header, data, records)


def _skim_all(header: BatchHeader, data: bytes) -> list[KeyedRecord]:
    """One loop with the short varints inlined, as in `record.py`, for the same reason."""
    base_offset, last_offset = header.base_offset, header.last_offset
    previous = base_offset - 1
    size, position = len(data), 0
    records = []
    for _ in range(header.record_count):
        start = position
        raw = data[position]
        position += 1
        if raw >= 0x80:
            raw, position = longer_varint(data, position, raw)
        body = position
        end = position + (raw >> 1)
        if raw & 1 or end > size:
            raise MalformedRecords(f"a record at {start} does not end by {size}")
        raw = data[position + 1]
        position += 2
        if raw >= 0x80:
            timestamp_delta, position = decode_varlong(data, position - 1)
        else:
            timestamp_delta = raw >> 1 ^ -(raw & 1)
        rest = position
        raw = data[position]
        position += 1
        if raw >= 0x80:
            raw, position = longer_varint(data, position, raw)
        offset = base_offset + (raw >> 1 ^ -(raw & 1))
        if not previous < offset <= last_offset:
            raise MalformedRecords(f"offset {offset} between {previous} and {last_offset}")
        previous = offset
        raw = data[position]
        position += 1
        key = None
        if raw != 1:
            if raw >= 0x80:
                raw, position = longer_varint(data, position, raw)
            place, position = position, position + (raw >> 1)
            if raw & 1 or position > end:
                raise MalformedRecords(f"a key at {place} does not end by {end}")
            key = data[place:position]
        raw = data[position]
        position += 1
        has_value = raw != 1
        if has_value:
            if raw >= 0x80:
                raw, position = longer_varint(data, position, raw)
            position += raw >> 1
        if position >= end or (has_value and raw & 1):
            raise MalformedRecords(f"a record ends at {end}, its fields at {position}")
        fields = (offset, key, has_value, timestamp_delta, start, body, rest, end)
        records.append(_new(KeyedRecord, fields))
        position = end
    if position != size:
        raise MalformedRecords(f"{size - position} bytes follow the last record")
    return records


def without_others(
    skimmed: Skimmed, kept: Sequence[KeyedRecord], *, delete_horizon_ms: TimestampMs | None = None
) -> bytearray:
    """The batch with the `kept` ones of its records, and with a delete horizon if one is given.

    With nothing kept it is `emptied`.
    """
    header, data, _ = skimmed
    if not kept:
        return emptied(header)
    if delete_horizon_ms is None:
        delete_horizon_ms = header.base_timestamp
        payload = b"".join([data[one.start : one.end] for one in kept])
        attributes = header.attributes
    else:
        shift = header.base_timestamp - delete_horizon_ms
        payload = b"".join([part for one in kept for part in _moved(data, one, shift)])
        attributes = header.attributes | bits.DELETE_HORIZON
    return _sealed(
        header._replace(
            attributes=attributes,
            base_timestamp=delete_horizon_ms,
            max_timestamp=_max_timestamp(header, kept),
            record_count=len(kept),
        ),
        compress(header.codec, payload),
    )


def emptied(header: BatchHeader) -> bytearray:
    """The batch without records: its offsets and its producer's sequence numbers are all it tells.

    It has no timestamp, so that nobody who looks for a time stops here, and no codec: clients would
    try to unpack its nothing, and fail.
    """
    return _sealed(
        header._replace(
            attributes=header.attributes & ~(bits.DELETE_HORIZON | bits.CODEC_MASK),
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
        b"",
    )


def _moved(data: bytes, record: KeyedRecord, shift: int) -> tuple[bytes, ...]:
    """A record whose timestamp counts from another base."""
    delta = max(-TIME_MAX - 1, min(record.timestamp_delta + shift, TIME_MAX))
    time = encode_varint(delta)
    size = 1 + len(time) + record.end - record.rest
    return (
        encode_varint(size),
        data[record.body : record.body + 1],
        time,
        data[record.rest : record.end],
    )


def _max_timestamp(header: BatchHeader, kept: Sequence[KeyedRecord]) -> TimestampMs:
    if header.is_log_append_time:
        return header.max_timestamp
    latest = header.base_timestamp + max(one.timestamp_delta for one in kept)
    return TimestampMs(max(NO_TIMESTAMP, min(latest, TIME_MAX)))


def _sealed(header: BatchHeader, payload: bytes) -> bytearray:
    batch = bytearray(HEADER_BYTES)
    batch += payload
    header = header._replace(length=len(batch) - PREFIX_BYTES, crc=0)
    HEADER.pack_into(batch, 0, *header)
    HEADER.pack_into(batch, 0, *header._replace(crc=crc_of(batch)))
    return batch


_new = tuple.__new__
