"""Batches without some of their records: what stays is what it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.batches import altered, codecs, record_lists
from tierlog.records.attributes import Codec
from tierlog.records.batch import validate_stored
from tierlog.records.errors import BatchError
from tierlog.records.keyed import emptied, skim_batch, without_others
from tierlog.records.record import Record, decode_batch, decode_records, encode_batch
from tierlog.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs

MIDNIGHT = TimestampMs(1_700_000_000_000)


@given(record_lists(dense=False, base_offset=40), codecs)
def test_skimming_finds_what_decoding_finds(records: list[Record], codec: Codec) -> None:
    batch = encode_batch(records, base_offset=Offset(40), codec=codec)
    skimmed = skim_batch(batch)
    assert [(one.offset, one.key, one.has_value) for one in skimmed.records] == [
        (record.offset, record.key, record.value is not None) for record in records
    ]


@given(
    record_lists(dense=False, base_offset=40, min_size=1),
    codecs,
    st.data(),
    st.none() | st.integers(0, 2**63 - 1),
    st.booleans(),
)
def test_what_is_kept_is_what_it_was(
    records: list[Record], codec: Codec, data: st.DataObject, horizon: int | None, stamped: bool
) -> None:
    batch = encode_batch(
        records,
        base_offset=Offset(40),
        leader_epoch=LeaderEpoch(3),
        codec=codec,
        producer_id=ProducerId(9),
        producer_epoch=ProducerEpoch(1),
        base_sequence=17,
        log_append_time=MIDNIGHT if stamped else None,
    )
    before = decode_batch(batch)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    skimmed = skim_batch(batch)
    kept = [one for one, stays in zip(skimmed.records, chosen, strict=True) if stays]
    made = without_others(
        skimmed, kept, delete_horizon_ms=None if horizon is None else TimestampMs(horizon)
    )
    validate_stored(made)
    after = decode_batch(made)
    expected = [one for one, stays in zip(before.records, chosen, strict=True) if stays]
    assert list(after.records) == expected
    for name in (
        "base_offset",
        "leader_epoch",
        "last_offset_delta",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "last_sequence",
        "is_log_append_time",
    ):
        assert getattr(after.header, name) == getattr(before.header, name)
    assert after.header.codec == (codec if kept else Codec.NONE)
    if kept:
        assert after.header.has_delete_horizon == (horizon is not None)
        assert after.header.max_timestamp == max(one.timestamp for one in expected)
    if kept and horizon is not None:
        assert after.header.base_timestamp == horizon


def test_an_emptied_batch_has_its_place_and_no_time() -> None:
    batch = encode_batch([Record(Offset(5), MIDNIGHT, b"k", b"v")], base_offset=Offset(5))
    made = emptied(validate_stored(batch))
    header = validate_stored(made)
    assert (header.base_offset, header.next_offset, header.record_count) == (5, 6, 0)
    assert header.max_timestamp == -1
    assert decode_records(made) == []
    assert emptied(header) == made


def test_all_records_kept_is_the_batch_byte_for_byte() -> None:
    records = [Record(Offset(n), MIDNIGHT, b"k%d" % n, b"v") for n in range(3)]
    batch = encode_batch(records)
    skimmed = skim_batch(batch)
    assert without_others(skimmed, skimmed.records) == batch


@given(record_lists(), st.integers(61, 400), st.integers(0, 255))
def test_garbage_is_refused_and_never_misread(records: list[Record], at: int, byte: int) -> None:
    """Whatever skimming accepts has offsets of the batch, and can be written again."""
    batch = encode_batch(records)
    if at >= len(batch):
        return
    batch[at] = byte
    batch = altered(batch)
    try:
        skimmed = skim_batch(batch)
    except BatchError:
        return
    assert all(0 <= one.offset < len(records) for one in skimmed.records)
    validate_stored(without_others(skimmed, skimmed.records[:1], delete_horizon_ms=MIDNIGHT))


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_records_that_end_early_are_refused(cut: int) -> None:
    batch = encode_batch([Record(Offset(0), MIDNIGHT, b"key", b"value")])
    short = batch[:-cut]
    with pytest.raises(BatchError):
        skim_batch(altered(short, length=len(short) - 12))
