"""What a header says beyond its fields."""

import pytest

from tests.records.batches import START, altered, some_records
from tierlog.records.attributes import Codec
from tierlog.records.batch import parse_header
from tierlog.records.control import EndMarker, encode_end_marker
from tierlog.records.errors import TruncatedBatch
from tierlog.records.record import encode_batch
from tierlog.types import ProducerEpoch, ProducerId

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


@pytest.mark.parametrize("codec", Codec)
def test_the_header_names_the_codec(codec: Codec) -> None:
    assert parse_header(encode_batch(some_records(), codec=codec)).codec is codec


def test_a_header_is_read_in_the_middle_of_a_buffer() -> None:
    assert parse_header(b"before" + PLAIN, 6) == parse_header(PLAIN)
    with pytest.raises(TruncatedBatch, match="at position 7: 0 bytes"):
        parse_header(b"before", 7)


def test_the_header_knows_what_follows_from_its_fields() -> None:
    header = parse_header(altered(IDEMPOTENT, base_offset=100, base_sequence=2**31 - 2))
    assert header.size_bytes == len(IDEMPOTENT)
    assert (header.last_offset, header.next_offset) == (102, 103)
    assert header.last_sequence == 0  # 2^31 - 2, 2^31 - 1, then 0
    assert header.has_producer
    assert header.codec is Codec.NONE
    assert not header.is_control
    assert not header.is_transactional
    assert not header.is_log_append_time
    assert not header.has_delete_horizon
    assert not header.lacks_max_timestamp
    assert parse_header(PLAIN).last_sequence == -1
    assert parse_header(MARKER).is_control
    assert parse_header(MARKER).is_transactional
    assert parse_header(altered(PLAIN, attributes=0x40)).has_delete_horizon
