"""End markers of transactions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.records.batch import validate_stored
from tierlog.records.control import EndMarker, decode_end_marker, encode_end_marker
from tierlog.records.errors import MalformedRecords
from tierlog.records.record import Record, decode_records
from tierlog.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampMs


def control_record(key: bytes | None, value: bytes | None) -> Record:
    return Record(Offset(7), TimestampMs(0), key, value)


@given(commit=st.booleans(), epoch=st.integers(-(2**31), 2**31 - 1), offset=st.integers(0, 2**60))
def test_a_marker_comes_back_from_its_batch(commit: bool, epoch: int, offset: int) -> None:
    marker = EndMarker(commit=commit, coordinator_epoch=epoch)
    batch = encode_end_marker(
        marker,
        producer_id=ProducerId(4000),
        producer_epoch=ProducerEpoch(3),
        timestamp=TimestampMs(1_700_000_000_000),
        offset=Offset(offset),
        leader_epoch=LeaderEpoch(2),
    )
    header = validate_stored(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.leader_epoch, header.record_count) == (offset, 2, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 3, -1)
    assert [decode_end_marker(record) for record in decode_records(batch)] == [marker]


def test_the_bytes_of_a_commit_marker_are_those_of_the_protocol() -> None:
    batch = encode_end_marker(
        EndMarker(commit=True, coordinator_epoch=9),
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        timestamp=TimestampMs(5),
    )
    (record,) = decode_records(batch)
    assert record.key == b"\x00\x00\x00\x01"
    assert record.value == b"\x00\x00\x00\x00\x00\x09"
    assert batch[21:23] == b"\x00\x30"


def test_what_a_later_version_adds_is_ignored() -> None:
    record = control_record(b"\x00\x01\x00\x00more", b"\x00\x01\x00\x00\x00\x05more")
    assert decode_end_marker(record) == EndMarker(commit=False, coordinator_epoch=5)


def test_other_control_records_are_not_markers() -> None:
    assert decode_end_marker(control_record(b"\x00\x00\x00\x02", None)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00\x00\x00\x00\x00\x01"),
        (b"\x00\x00\x00", b"\x00\x00\x00\x00\x00\x01"),
        (b"\xff\xff\x00\x01", b"\x00\x00\x00\x00\x00\x01"),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00"),
    ],
)
def test_a_malformed_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRecords):
        decode_end_marker(control_record(key, value))
