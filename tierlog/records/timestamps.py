"""Time inside one batch: which record is the first at or after a moment, which is the latest.

The index finds the batch; the answer is a record, not the batch's base offset (ListOffsets promises
the first *record*). In a batch of log append time every record has the batch's max timestamp.

Look-ups skim: of each record they read its length and its time, of a hit its offset as well, and
pass over the rest.
"""

from collections.abc import Iterable

from tierlog.records.batch import BatchHeader, parse_header, patch_max_timestamp
from tierlog.records.errors import InvalidTimestamp, MalformedRecords
from tierlog.records.limits import DEFAULT_LIMITS, Limits
from tierlog.records.record import (
    FIRST_OFFSET,
    Record,
    decode_records,
    longer_varint,
    plain_records,
)
from tierlog.records.refusal import NO_BOUND
from tierlog.records.varint import decode_varint, decode_varlong
from tierlog.types import Bytes, Offset, TimestampMs, WritableBytes


def first_record_at_or_after(
    batch: Bytes,
    timestamp: TimestampMs,
    *,
    from_offset: Offset = FIRST_OFFSET,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[Offset, TimestampMs] | None:
    """Offset and timestamp of the first such record that is not below `from_offset`, or None.

    First by offset: timestamps need not rise. `from_offset` is for a batch that the log start
    offset cuts through. What stands behind the answer is not looked at.
    """
    return _skim(batch, limits, above=timestamp - 1, from_offset=from_offset, stops=True)


def max_timestamp_record(
    batch: Bytes, *, from_offset: Offset = FIRST_OFFSET, limits: Limits = DEFAULT_LIMITS
) -> tuple[Offset, TimestampMs] | None:
    """Offset and timestamp of the latest record that is not below `from_offset`, the first of
    several; None where there is no record."""
    return _skim(batch, limits, above=-(2**63) - 1, from_offset=from_offset, stops=False)


def fill_max_timestamp(
    batch: WritableBytes,
    *,
    timestamp_max: TimestampMs = NO_BOUND,
    limits: Limits = DEFAULT_LIMITS,
) -> TimestampMs:
    """Write the max timestamp that the producer left out, and return it.

    For exactly one batch, checked, whose header `lacks_max_timestamp`. Kafka's broker fills the
    field in for every batch; here a decode is paid only by writers that leave it empty. What is
    found meets the rule that `validate_produced` has for a field that was sent: not below the base,
    not beyond `timestamp_max` (KIP-937). `InvalidTimestamp` otherwise, and nothing is written.
    """
    header = parse_header(batch)
    assert header.lacks_max_timestamp
    latest = _latest(decode_records(batch, limits=limits))
    assert latest is not None, "a produced batch holds a record"
    if not header.base_timestamp <= latest.timestamp <= timestamp_max:
        raise InvalidTimestamp(
            f"latest record of {latest.timestamp} is not within base {header.base_timestamp} "
            f"and {timestamp_max}"
        )
    patch_max_timestamp(batch, timestamp_ms=latest.timestamp)
    return latest.timestamp


def _latest(records: Iterable[Record]) -> Record | None:
    return max(records, key=lambda record: record.timestamp, default=None)


def _skim(
    batch: Bytes, limits: Limits, *, above: int, from_offset: Offset, stops: bool
) -> tuple[Offset, TimestampMs] | None:
    """The first record later than `above` or, if that `stops` nothing, the latest of them.

    Raises as decoding does, but not for what is wrong in places that it passes over.
    """
    header, data = plain_records(batch, limits=limits)
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    size, position = len(data), 0
    found: tuple[Offset, TimestampMs] | None = None
    try:
        for _ in range(header.record_count):
            raw = data[position]
            position += 1
            if raw >= 0x80:
                raw, position = longer_varint(data, position, raw)
            end = position + (raw >> 1)
            if raw & 1 or not position < end <= size:
                raise MalformedRecords(f"a record at {position} does not end by {size}")
            raw = data[position + 1]
            position += 2
            if raw >= 0x80:
                delta, position = decode_varlong(data, position - 1)
            else:
                delta = raw >> 1 ^ -(raw & 1)
            timestamp = base_timestamp + delta if append_time is None else append_time
            if timestamp > above:
                delta, position = decode_varint(data, position)
                _check_place(header, delta, timestamp)
                offset = Offset(header.base_offset + delta)
                if offset >= from_offset:
                    found, above = (offset, TimestampMs(timestamp)), timestamp
                    if stops:
                        return found
            if position > end:
                raise MalformedRecords(f"a record ends at {end}, its fields at {position}")
            position = end
    except IndexError:
        raise MalformedRecords("the records end in the middle of a number") from None
    if position != size:
        raise MalformedRecords(f"{size - position} bytes follow the last record")
    return found


def _check_place(header: BatchHeader, offset_delta: int, timestamp: int) -> None:
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise MalformedRecords(f"offset delta {offset_delta} of {header.last_offset_delta}")
    if timestamp >= 2**63:
        raise MalformedRecords(f"a timestamp of {timestamp} exceeds 64 bits")
