"""The hand-written Produce reader agrees with the compiled one in values and refusals."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from tests.wire.strategies import messages
from tests.wire.values import Values
from tierlog.wire.codec import decode_whole, encode
from tierlog.wire.errors import TrailingBytes, Truncated, UnsupportedVersion, WireError
from tierlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.wire.produce import TOPIC_IDS_FROM, Produced, read_produce

VERSIONS = list(ProduceRequest.versions)


def flat(message: ProduceRequest, version: int) -> Produced:
    """The compiled reader's message in the shape of the hand-written one."""
    return Produced(
        message.transactional_id,
        message.acks,
        message.timeout_ms,
        [
            (
                (topic.topic_id if version >= TOPIC_IDS_FROM else topic.name),
                [
                    (part.index, None if part.records is None else memoryview(part.records))
                    for part in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_reads_what_the_compiled_reader_reads(version: int) -> None:
    @settings(max_examples=30, deadline=None)
    @given(messages(ProduceRequest, version))
    def check(message: ProduceRequest) -> None:
        data = encode(message, version)
        assert read_produce(version, data) == flat(
            decode_whole(ProduceRequest, version, data), version
        )

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_refuses_what_the_compiled_reader_refuses(version: int) -> None:
    """Damaged bytes: both read the same values, or both raise."""
    random = Random(version)
    for seed in range(300):
        data = bytearray(encode(Values(seed).message(ProduceRequest, version), version))
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.choice((0, 1, 127, 128, 255))
        del data[len(data) - random.choice((0, 0, 1, 5)) :]
        assert _outcome_by_hand(version, bytes(data)) == _outcome_compiled(version, bytes(data))


def _outcome_by_hand(version: int, data: bytes) -> Produced | None:
    try:
        return read_produce(version, data)
    except WireError:
        return None


def _outcome_compiled(version: int, data: bytes) -> Produced | None:
    try:
        return flat(decode_whole(ProduceRequest, version, data), version)
    except WireError:
        return None


@pytest.mark.parametrize("size", [0, 1, 126, 127, 16_382, 16_383, 2_097_150, 2_097_151, 3_000_000])
def test_records_of_any_varint_width_are_found(size: int) -> None:
    records = bytes(size)
    message = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=0,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=7, records=records)]
            )
        ],
    )
    made = read_produce(9, encode(message, 9))
    assert made.topics == [("t", [(7, memoryview(records))])]


def test_records_are_views_into_the_frame() -> None:
    message = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=0,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=b"abc")]
            )
        ],
    )
    frame = bytearray(encode(message, 9))
    view = read_produce(9, memoryview(frame)).topics[0][1][0][1]
    assert view is not None
    view[0] = ord("X")
    assert b"Xbc" in frame


def test_trailing_bytes_are_refused() -> None:
    message = ProduceRequest(transactional_id=None, acks=1, timeout_ms=0, topic_data=[])
    with pytest.raises(TrailingBytes):
        read_produce(9, encode(message, 9) + b"\0")


def test_records_beyond_the_frame_are_refused() -> None:
    message = Values(1).message(ProduceRequest, 9)
    with pytest.raises(Truncated):
        read_produce(9, encode(message, 9)[:-1])


@pytest.mark.parametrize("version", [-1, 2, 14])
def test_unknown_versions_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        read_produce(version, b"")
