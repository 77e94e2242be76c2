"""Time inside one batch: which record is the first at or after a moment, which is the latest.

The index finds the batch; the answer is a record, not the batch's base offset (ListOffsets promises
the first *record*). In a batch of log append time every record has the batch's max timestamp.
"""

from collections.abc import Iterable

from tierlog.records.batch import parse_header, patch_max_timestamp
from tierlog.records.errors import InvalidTimestamp
from tierlog.records.limits import DEFAULT_LIMITS, Limits
from tierlog.records.record import FIRST_OFFSET, Record, decode_records
from tierlog.records.refusal import NO_BOUND
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
    offset cuts through.
    """
    for record in decode_records(batch, limits=limits):
        if record.timestamp >= timestamp and record.offset >= from_offset:
            return record.offset, record.timestamp
    return None


def max_timestamp_record(
    batch: Bytes, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[Offset, TimestampMs] | None:
    """Offset and timestamp of the latest record, the first of several; None in an empty batch."""
    latest = _latest(decode_records(batch, limits=limits))
    return None if latest is None else (latest.offset, latest.timestamp)


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
