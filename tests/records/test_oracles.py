"""Differential tests: what we write others read, what they write we read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.batches import produced_batches, record_lists
from tests.records.oracles import (
    AiokafkaBatch,
    AiokafkaBuilder,
    KafkaPythonBatch,
    KafkaPythonBuilder,
)
from tierlog.records.attributes import Codec
from tierlog.records.batch import parse_header, patch_log_append_time, validate_produced
from tierlog.records.control import EndMarker, encode_end_marker
from tierlog.records.record import Record, decode_records, encode_batch
from tierlog.types import ProducerEpoch, ProducerId, TimestampMs

pytestmark = pytest.mark.compat

READERS = {"aiokafka": AiokafkaBatch, "kafka-python": KafkaPythonBatch}
BUILDERS = {"aiokafka": AiokafkaBuilder, "kafka-python": KafkaPythonBuilder}
CODECS: dict[str, list[Codec]] = {
    "aiokafka": list(Codec),
    # It reads and writes snappy by a package of its own, which we do not need.
    "kafka-python": [codec for codec in Codec if codec is not Codec.SNAPPY],
}


def seen_by(reader: Any, batch: bytes) -> list[Record]:
    """The records of a batch as a foreign decoder sees them."""
    foreign = reader(batch)
    assert foreign.validate_crc()
    return [
        Record(r.offset, r.timestamp, r.key, r.value, tuple((k, v) for k, v in r.headers))
        for r in foreign
    ]


@pytest.mark.parametrize("client", READERS)
@given(batch=produced_batches())
def test_what_we_write_others_read(client: str, batch: bytearray) -> None:
    header = parse_header(batch)
    if header.codec in CODECS[client]:
        assert seen_by(READERS[client], bytes(batch)) == decode_records(batch)
    foreign = READERS[client](bytes(batch))
    assert (foreign.producer_id, foreign.producer_epoch) == header[9:11]
    assert foreign.base_sequence == header.base_sequence
    assert foreign.is_transactional == header.is_transactional
    assert foreign.max_timestamp == header.max_timestamp
    assert foreign.next_offset == header.next_offset


@pytest.mark.parametrize("client", BUILDERS)
@given(records=record_lists(), data=st.data())
def test_what_others_write_we_read(client: str, records: list[Record], data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(CODECS[client]))
    # Builders take no record without a timestamp: they would ask the clock.
    records = [r._replace(timestamp=TimestampMs(max(r.timestamp, 0))) for r in records]
    least = min(r.timestamp for r in records)
    records[0] = records[0]._replace(timestamp=least)
    builder = BUILDERS[client](2, codec, False, -1, -1, -1, 1 << 30)
    for r in records:
        appended = builder.append(
            r.offset, timestamp=r.timestamp, key=r.key, value=r.value, headers=list(r.headers)
        )
        assert appended is not None
    batch = bytes(builder.build())
    header = validate_produced(batch, len(batch))
    assert decode_records(batch, dense=True) == records
    if header.codec is Codec.NONE:  # They leave small batches uncompressed where that is shorter.
        assert batch == encode_batch(records, leader_epoch=header.leader_epoch)


@pytest.mark.parametrize("client", READERS)
def test_others_read_our_log_append_time(client: str) -> None:
    batch = encode_batch([Record(0, 5, b"k", b"v")])  # type: ignore[arg-type]  # plain numbers will do
    patch_log_append_time(batch, timestamp_ms=77)
    assert [record.timestamp for record in seen_by(READERS[client], bytes(batch))] == [77]


@pytest.mark.parametrize("commit", [True, False])
def test_kafka_python_reads_our_markers(commit: bool) -> None:
    batch = encode_end_marker(
        EndMarker(commit=commit, coordinator_epoch=1),
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        timestamp=TimestampMs(5),
    )
    foreign = KafkaPythonBatch(bytes(batch))
    assert foreign.is_control_batch
    (record,) = foreign
    assert (record.commit, record.abort) == (commit, not commit)
