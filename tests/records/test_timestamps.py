"""Time inside one batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.batches import altered, codecs, record_lists, some_records
from tierlog.records.attributes import Codec
from tierlog.records.batch import HEADER_BYTES, patch_log_append_time, validate_produced
from tierlog.records.errors import InvalidTimestamp
from tierlog.records.record import Record, encode_batch
from tierlog.records.timestamps import (
    fill_max_timestamp,
    first_record_at_or_after,
    max_timestamp_record,
)
from tierlog.records.varint import encode_varint
from tierlog.types import Offset, TimestampMs


def stamped(*timestamps: int) -> list[Record]:
    return [Record(Offset(i), TimestampMs(t), None, b"") for i, t in enumerate(timestamps)]


@given(
    records=record_lists(dense=False),
    codec=codecs,
    moment=st.integers(-1, 2**42),
    start=st.integers(0, 50),
)
def test_the_first_record_at_or_after_a_moment_is_found(
    records: list[Record], codec: Codec, moment: int, start: int
) -> None:
    batch = encode_batch(records, codec=codec)
    later = [r for r in records if r.timestamp >= moment and r.offset >= start]
    expected = (later[0].offset, later[0].timestamp) if later else None
    found = first_record_at_or_after(batch, TimestampMs(moment), from_offset=Offset(start))
    assert found == expected


def test_first_means_by_offset_even_where_time_runs_backwards() -> None:
    batch = encode_batch(stamped(5, 9, 7, 8))
    assert first_record_at_or_after(batch, TimestampMs(6)) == (1, 9)
    assert first_record_at_or_after(batch, TimestampMs(10)) is None


def test_with_log_append_time_the_first_record_answers_for_all() -> None:
    batch = encode_batch(stamped(5, 9, 7))
    patch_log_append_time(batch, timestamp_ms=100)
    assert first_record_at_or_after(batch, TimestampMs(50)) == (0, 100)
    assert first_record_at_or_after(batch, TimestampMs(100)) == (0, 100)
    assert first_record_at_or_after(batch, TimestampMs(101)) is None
    assert max_timestamp_record(batch) == (0, 100)


def test_the_latest_record_is_the_first_of_several() -> None:
    assert max_timestamp_record(encode_batch(stamped(5, 9, 7, 9))) == (1, 9)
    assert max_timestamp_record(encode_batch(stamped(-1, -1))) == (0, -1)
    assert max_timestamp_record(encode_batch([], last_offset=Offset(3))) is None


@given(records=record_lists(), codec=codecs)
def test_a_max_timestamp_that_was_left_out_is_filled_in(
    records: list[Record], codec: Codec
) -> None:
    records[0] = records[0]._replace(timestamp=TimestampMs(0))
    whole = encode_batch(records, codec=codec)
    batch = altered(whole, max_timestamp=-1)
    assert validate_produced(batch, len(batch)).lacks_max_timestamp
    assert fill_max_timestamp(batch) == max(record.timestamp for record in records)
    assert batch == whole


def test_a_max_timestamp_that_was_left_out_is_held_to_the_bound_of_one_that_was_sent() -> None:
    batch = altered(encode_batch(stamped(5, 9, 7)), max_timestamp=-1)
    before = bytes(batch)
    validate_produced(batch, len(batch), timestamp_max=TimestampMs(8))
    with pytest.raises(InvalidTimestamp, match="9 is not within"):
        fill_max_timestamp(batch, timestamp_max=TimestampMs(8))
    assert batch == before
    assert fill_max_timestamp(batch, timestamp_max=TimestampMs(9)) == 9


def test_a_batch_whose_records_all_lie_below_its_base_is_refused() -> None:
    head = encode_batch(stamped(5))[:HEADER_BYTES]
    payload = record_with_delta(-3)
    batch = altered(head + payload, max_timestamp=-1, length=len(head + payload) - 12)
    with pytest.raises(InvalidTimestamp, match="2 is not within base 5"):
        fill_max_timestamp(batch)


def record_with_delta(delta: int) -> bytes:
    """A record without key, value and headers."""
    body = b"\0" + encode_varint(delta) + encode_varint(0) + b"\x01\x01\0"
    return encode_varint(len(body)) + body


def test_a_batch_without_any_timestamp_lacks_nothing() -> None:
    records = [record._replace(timestamp=TimestampMs(-1)) for record in some_records()]
    batch = encode_batch(records)
    assert not validate_produced(batch, len(batch)).lacks_max_timestamp
