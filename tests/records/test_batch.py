"""Checks, patches and the walk over batches."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.batches import START, altered, produced_batches, some_records, unsealed
from tierlog.errors import Kind
from tierlog.records.attributes import Codec
from tierlog.records.batch import (
    HEADER_BYTES,
    crc_of,
    iter_batches,
    parse_header,
    patch_log_append_time,
    patch_max_timestamp,
    patch_offset,
    validate_produced,
    validate_stored,
)
from tierlog.records.control import EndMarker, encode_end_marker
from tierlog.records.errors import (
    BatchError,
    BatchTooLarge,
    ChecksumMismatch,
    CorruptBatch,
    CorruptProduce,
    InvalidRecord,
    InvalidTimestamp,
    TruncatedBatch,
    UnsupportedMagic,
)
from tierlog.records.record import encode_batch
from tierlog.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs

SIZE_MAX = 1_048_588
PLAIN = encode_batch(some_records())
IDEMPOTENT = encode_batch(
    some_records(), producer_id=ProducerId(9), producer_epoch=ProducerEpoch(0), base_sequence=0
)
MARKER = encode_end_marker(
    EndMarker(commit=True, coordinator_epoch=1),
    producer_id=ProducerId(9),
    producer_epoch=ProducerEpoch(0),
    timestamp=START,
)


def flipped(batch: bytes | bytearray, at: int) -> bytearray:
    copy = bytearray(batch)
    copy[at] ^= 0x01
    return copy


def validate(batch: bytearray) -> object:
    return validate_produced(memoryview(batch), SIZE_MAX)


REFUSED: dict[str, tuple[Callable[[], bytes | bytearray], type[BatchError], str]] = {
    "nothing": (lambda: b"", CorruptProduce, "0 bytes, a header alone has 61"),
    "a header cut short": (lambda: PLAIN[:60], CorruptProduce, "60 bytes"),
    "records cut short": (lambda: PLAIN[:-1], CorruptProduce, "only"),
    "a negative length": (lambda: altered(PLAIN, length=-1), CorruptProduce, "length field -1"),
    "a length of the least int": (
        lambda: altered(PLAIN, length=-(2**31)),
        CorruptProduce,
        "length field",
    ),
    "a length below the header": (lambda: altered(PLAIN, length=48), CorruptProduce, "field 48"),
    "a second batch": (lambda: PLAIN + PLAIN, InvalidRecord, "exactly one batch"),
    "one byte too many": (lambda: PLAIN + b"\0", InvalidRecord, "1 bytes follow"),
    "magic 0": (lambda: altered(PLAIN, magic=0), UnsupportedMagic, "magic 0"),
    "magic 1": (lambda: altered(PLAIN, magic=1), UnsupportedMagic, "magic 1"),
    "magic 3": (lambda: altered(PLAIN, magic=3), UnsupportedMagic, "magic 3"),
    "an old message of 30 bytes": (lambda: bytes(16) + b"\1" + bytes(13), UnsupportedMagic, "1"),
    "a wrong CRC": (lambda: altered(PLAIN, crc=1), CorruptProduce, "CRC-32C"),
    "a flipped bit in a record": (lambda: flipped(PLAIN, -3), CorruptProduce, "CRC-32C"),
    "no record": (lambda: altered(PLAIN, record_count=0, last_offset_delta=-1), InvalidRecord, "0"),
    "a negative count": (
        lambda: altered(PLAIN, record_count=-3, last_offset_delta=-4),
        InvalidRecord,
        "record count -3",
    ),
    "a count above the delta": (
        lambda: altered(PLAIN, record_count=4),
        InvalidRecord,
        "record count 4 does not fit last offset delta 2",
    ),
    "a count below the delta": (lambda: altered(PLAIN, record_count=2), InvalidRecord, "delta 2"),
    "a negative last offset delta": (
        lambda: altered(PLAIN, last_offset_delta=-1),
        InvalidRecord,
        "delta -1",
    ),
    "more records than bytes": (
        lambda: altered(PLAIN, record_count=50, last_offset_delta=49),
        InvalidRecord,
        "50 records cannot stand",
    ),
    "more compressed records than may inflate": (
        lambda: altered(
            encode_batch(some_records(), codec=Codec.ZSTD),
            record_count=2**31 - 1,
            last_offset_delta=2**31 - 2,
        ),
        InvalidRecord,
        "cannot stand",
    ),
    "codec 5": (lambda: altered(PLAIN, attributes=5), InvalidRecord, "codec 5"),
    "codec 7": (lambda: altered(IDEMPOTENT, attributes=7), InvalidRecord, "codec 7"),
    "an unknown attribute bit": (lambda: altered(PLAIN, attributes=0x80), InvalidRecord, "0x0080"),
    "the highest attribute bit": (
        lambda: altered(IDEMPOTENT, attributes=0x8000),
        InvalidRecord,
        "0x8000",
    ),
    "a control batch": (lambda: MARKER, InvalidRecord, "control"),
    "a control bit without producer": (
        lambda: altered(PLAIN, attributes=0x20),
        InvalidRecord,
        "control",
    ),
    "a delete horizon": (lambda: altered(PLAIN, attributes=0x40), InvalidRecord, "horizon"),
    "log append time": (lambda: altered(PLAIN, attributes=0x08), InvalidTimestamp, "append time"),
    "log append time of a producer": (
        lambda: altered(IDEMPOTENT, attributes=0x08),
        InvalidTimestamp,
        "append time",
    ),
    "a transaction without producer": (
        lambda: altered(PLAIN, attributes=0x10),
        InvalidRecord,
        "without a producer id",
    ),
    "producer id -2": (lambda: altered(PLAIN, producer_id=-2), InvalidRecord, "id -2"),
    "a producer without epoch": (
        lambda: altered(IDEMPOTENT, producer_epoch=-1),
        InvalidRecord,
        "epoch -1",
    ),
    "a producer without sequence": (
        lambda: altered(IDEMPOTENT, base_sequence=-1),
        InvalidRecord,
        "sequence -1",
    ),
    "max timestamp below base": (
        lambda: altered(PLAIN, max_timestamp=START - 1),
        InvalidTimestamp,
        "below base timestamp",
    ),
    "a base timestamp of -2": (
        lambda: altered(PLAIN, base_timestamp=-2),
        InvalidTimestamp,
        "below -1",
    ),
    "a max timestamp of -2": (
        lambda: altered(PLAIN, base_timestamp=-1, max_timestamp=-2),
        InvalidTimestamp,
        "below -1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_produced_batch_is_refused_for(name: str) -> None:
    make, kind, sentence = REFUSED[name]
    with pytest.raises(BatchError) as caught:
        validate_produced(memoryview(make()), SIZE_MAX)
    assert type(caught.value) is kind
    assert sentence in str(caught.value)
    assert caught.value.kind is Kind.INVALID


ACCEPTED = {
    "plain": PLAIN,
    "idempotent": IDEMPOTENT,
    "transactional": altered(IDEMPOTENT, attributes=0x10),
    "without timestamps": altered(PLAIN, base_timestamp=-1, max_timestamp=-1),
    "with a first record that has no timestamp": altered(PLAIN, base_timestamp=-1),
    "without max timestamp, as from Sarama until 2025": altered(PLAIN, max_timestamp=-1),
    "with sequence 0 and no producer, as Sarama": altered(PLAIN, base_sequence=0),
    "with any base offset and leader epoch": altered(PLAIN, base_offset=-7, leader_epoch=-1),
    "of many records that compress well": encode_batch(
        [r._replace(timestamp=START) for r in some_records(1000, value=b"")], codec=Codec.GZIP
    ),
    "with the last possible sequence": altered(IDEMPOTENT, base_sequence=2**31 - 1),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_produced_batch_is_accepted(name: str) -> None:
    batch = ACCEPTED[name]
    assert validate_produced(memoryview(batch), SIZE_MAX) == parse_header(batch)


def test_a_batch_of_exactly_the_limit_passes_and_one_byte_more_does_not() -> None:
    assert validate_produced(PLAIN, len(PLAIN))
    with pytest.raises(BatchTooLarge) as caught:
        validate_produced(PLAIN, len(PLAIN) - 1)
    assert (caught.value.size_bytes, caught.value.size_bytes_max) == (len(PLAIN), len(PLAIN) - 1)


@pytest.mark.parametrize(
    ("earliest", "latest", "passes"),
    [
        (START, START + 2, True),
        (START + 1, START + 2, False),
        (START, START + 1, False),
        (-1, START + 2, True),
        (START, 2**63 - 1, True),
    ],
)
def test_timestamp_bounds_hold_for_base_and_max(earliest: int, latest: int, passes: bool) -> None:
    bounds = TimestampMs(earliest), TimestampMs(latest)
    if passes:
        assert validate_produced(PLAIN, SIZE_MAX, *bounds)
        return
    with pytest.raises(InvalidTimestamp, match="not within"):
        validate_produced(PLAIN, SIZE_MAX, *bounds)


def test_a_batch_without_timestamps_is_within_any_bounds() -> None:
    batch = altered(PLAIN, base_timestamp=-1, max_timestamp=-1)
    assert validate_produced(batch, SIZE_MAX, START, TimestampMs(START + 1))


def test_damage_is_named_before_the_nonsense_it_causes() -> None:
    damaged = unsealed(PLAIN, record_count=-5, attributes=0xFFFF)
    with pytest.raises(CorruptProduce) as caught:
        validate_produced(damaged, SIZE_MAX)
    assert isinstance(caught.value.fault, ChecksumMismatch)
    assert caught.value.fault.actual == crc_of(damaged)


@given(batch=produced_batches())
def test_what_a_client_may_send_passes_both_checks(batch: bytearray) -> None:
    header = validate_produced(memoryview(batch), SIZE_MAX)
    assert header == validate_stored(memoryview(batch)) == parse_header(batch)


@given(batch=produced_batches(), data=st.data())
def test_no_flipped_bit_passes_the_check_of_a_produced_batch(
    batch: bytearray, data: st.DataObject
) -> None:
    # Base offset and leader epoch, bytes 0-7 and 12-15, are the broker's to write.
    at = data.draw(st.integers(16, len(batch) - 1) | st.integers(8, 11))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BatchError):
        validate_produced(memoryview(batch), SIZE_MAX)


numbers = st.sampled_from([-(2**15), -2, -1, 0, 1, 2, 4, 5, 8, 0x10, 0x20, 0x40, 2**15 - 1])
signed_fields = st.sampled_from(
    [
        "last_offset_delta",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "record_count",
    ]
)


@given(
    attributes=st.integers(0, 0x7F) | st.integers(0, 0xFFFF),
    fields=st.dictionaries(signed_fields, numbers),
)
def test_the_quick_check_and_its_explanation_always_agree(
    attributes: int, fields: dict[str, int]
) -> None:
    """Were they to differ, the explanation would raise AssertionError."""
    batch = altered(PLAIN, attributes=attributes, **fields)
    for check in (validate, validate_stored):
        with contextlib.suppress(BatchError):
            assert check(batch) == parse_header(batch)


STORED = {
    "plain": PLAIN,
    "control": MARKER,
    "log append time": encode_batch(some_records(), log_append_time=START),
    "cleaned": encode_batch(
        [some_records(9)[i] for i in (2, 5)], last_offset=Offset(8), base_offset=Offset(0)
    ),
    "empty": encode_batch([], base_offset=Offset(5), last_offset=Offset(9), max_timestamp=START),
    "delete horizon": altered(PLAIN, attributes=0x40, base_timestamp=START + 1000),
}


@pytest.mark.parametrize("name", STORED)
def test_a_stored_batch_may_be(name: str) -> None:
    batch = STORED[name]
    assert validate_stored(memoryview(batch)) == parse_header(batch)


DAMAGED = {
    "magic": (altered(PLAIN, magic=1), "magic 1"),
    "length too small": (altered(PLAIN, length=10), "length field 10"),
    "length negative": (altered(PLAIN, length=-70), "length field -70"),
    "length too small, with the CRC of nothing": (altered(PLAIN, length=9, crc=0), "field 9"),
    "length too large, with the CRC of what is there": (altered(PLAIN, length=999), "only"),
    "crc": (altered(PLAIN, crc=7), "CRC-32C"),
    "count negative": (altered(PLAIN, record_count=-1), "-1 records"),
    "count too large": (altered(PLAIN, record_count=4), "4 records"),
    "delta negative": (altered(PLAIN, last_offset_delta=-1, record_count=0), "delta -1"),
    "base offset negative": (altered(PLAIN, base_offset=-1), "base offset -1"),
    "offsets past the end of numbers": (altered(PLAIN, base_offset=2**63 - 2), "out of range"),
    "codec": (altered(PLAIN, attributes=6), "attributes 0x0006"),
    "attributes": (altered(PLAIN, attributes=0x100), "attributes 0x0100"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_stored_batch_is_damaged_by(name: str) -> None:
    batch, sentence = DAMAGED[name]
    with pytest.raises(CorruptBatch, match=sentence) as caught:
        validate_stored(memoryview(batch))
    assert caught.value.kind is Kind.CORRUPT


@pytest.mark.parametrize("size", [0, 1, 60, 61, len(PLAIN) - 1])
def test_a_stored_batch_that_is_cut_off_says_how_much_is_missing(size: int) -> None:
    with pytest.raises(TruncatedBatch) as caught:
        validate_stored(memoryview(PLAIN[:size]))
    assert caught.value.present == size
    assert caught.value.needed == (len(PLAIN) if size >= HEADER_BYTES else HEADER_BYTES)


def test_a_stored_batch_is_checked_in_the_middle_of_a_buffer() -> None:
    buffer = memoryview(b"before" + PLAIN + IDEMPOTENT)
    assert validate_stored(buffer, 6) == parse_header(PLAIN)
    assert validate_stored(buffer, 6 + len(PLAIN)) == parse_header(IDEMPOTENT)
    with pytest.raises(CorruptBatch, match="at position 7") as caught:
        validate_stored(buffer, 7)
    assert caught.value.position == 7


@given(
    batch=produced_batches(),
    offset=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**31 - 1),
)
def test_patching_the_offset_changes_nothing_else(
    batch: bytearray, offset: int, epoch: int
) -> None:
    before = parse_header(batch)
    rest = batch[16:]
    patch_offset(memoryview(batch), Offset(offset), LeaderEpoch(epoch))
    after = parse_header(batch)
    assert after == before._replace(base_offset=Offset(offset), leader_epoch=LeaderEpoch(epoch))
    assert batch[16:] == rest
    assert after.crc == crc_of(batch)


@given(batch=produced_batches(), now=st.integers(0, 2**63 - 1))
def test_patching_log_append_time_changes_type_time_and_crc_alone(
    batch: bytearray, now: int
) -> None:
    before, records = parse_header(batch), batch[HEADER_BYTES:]
    patch_log_append_time(memoryview(batch), timestamp_ms=now)
    after = validate_stored(memoryview(batch))
    assert after.is_log_append_time
    assert after == before._replace(
        attributes=before.attributes | 0x08, max_timestamp=TimestampMs(now), crc=after.crc
    )
    assert batch[HEADER_BYTES:] == records


def test_patching_the_max_timestamp_keeps_the_batch_sound() -> None:
    batch = altered(PLAIN, max_timestamp=-1)
    assert parse_header(batch).lacks_max_timestamp
    patch_max_timestamp(batch, timestamp_ms=START + 2)
    assert batch == PLAIN


def test_batches_end_to_end_are_walked_in_order() -> None:
    buffer = PLAIN + MARKER + STORED["empty"] + IDEMPOTENT
    walked = list(iter_batches(memoryview(buffer)))
    sizes = [header.size_bytes for _, header in walked]
    assert [position for position, _ in walked] == [sum(sizes[:i]) for i in range(4)]
    assert sum(sizes) == len(buffer)
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize("cut", [1, 60, 61, len(PLAIN) - 1])
def test_a_walk_yields_the_whole_batches_and_then_says_that_one_is_cut(cut: int) -> None:
    walk = iter_batches(memoryview(PLAIN + PLAIN[:cut]))
    assert next(walk) == (0, parse_header(PLAIN))
    with pytest.raises(TruncatedBatch) as caught:
        next(walk)
    assert caught.value.position == len(PLAIN)


@pytest.mark.parametrize("length", [-(2**31), -12, 0, 48])
def test_a_walk_does_not_run_in_circles(length: int) -> None:
    with pytest.raises(CorruptBatch, match="length field"):
        list(iter_batches(altered(PLAIN, length=length)))
