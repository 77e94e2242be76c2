"""Batches that other encoders wrote pass, are read and, uncompressed, written to the byte."""

import pytest

from tests.records.golden import GOLDEN, RECORDS
from tierlog.records.attributes import Codec
from tierlog.records.batch import parse_header, validate_produced, validate_stored
from tierlog.records.record import decode_records, encode_batch

NOT_COMPRESSED = [name for name in GOLDEN if "none" in name]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_foreign_batch_passes_the_checks_and_is_read(name: str) -> None:
    batch = memoryview(GOLDEN[name])
    assert validate_produced(batch, len(batch)) == validate_stored(batch)
    assert decode_records(batch, dense=True) == RECORDS


@pytest.mark.parametrize("name", NOT_COMPRESSED)
def test_a_foreign_batch_is_written_by_us_to_the_byte(name: str) -> None:
    header = parse_header(GOLDEN[name])
    ours = encode_batch(
        RECORDS,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
    )
    assert ours == GOLDEN[name]


def test_every_codec_and_both_framings_of_snappy_are_covered() -> None:
    codecs = [parse_header(batch).codec for batch in GOLDEN.values()]
    assert set(codecs) == set(Codec)
    assert codecs.count(Codec.SNAPPY) == 2
