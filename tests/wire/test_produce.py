"""The hand-written Produce reader agrees with the compiled one in values and refusals."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings

from tests.wire.produced import agree, by_hand, compiled, flat
from tests.wire.strategies import messages
from tests.wire.values import Values
from tierlog.wire import produce
from tierlog.wire.codec import decode_whole, encode
from tierlog.wire.compiler import reader
from tierlog.wire.errors import TooManyElements, TrailingBytes, Truncated, UnsupportedVersion
from tierlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.wire.primitives import uvarint
from tierlog.wire.produce import TOPIC_IDS_FROM, read_produce

VERSIONS = list(ProduceRequest.versions)


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
    """Damaged bytes: both read the same values, or both refuse for the same reason."""
    random = Random(version)
    for seed in range(300):
        data = bytearray(encode(Values(seed).message(ProduceRequest, version), version))
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.choice((0, 1, 127, 128, 255))
        del data[len(data) - random.choice((0, 0, 1, 5)) :]
        assert agree(by_hand(version, bytes(data)), compiled(version, bytes(data)))


def request(version: int, *partition_counts: int) -> bytes:
    """A request with so many topics, and so many partitions without records in each."""
    topics = [
        TopicProduceData(
            name="" if version >= TOPIC_IDS_FROM else "t",
            partition_data=[PartitionProduceData(index=i, records=None) for i in range(count)],
        )
        for count in partition_counts
    ]
    message = ProduceRequest(transactional_id=None, acks=1, timeout_ms=0, topic_data=topics)
    return encode(message, version)


@pytest.mark.parametrize("version", [9, 12, 13])
def test_an_array_that_is_null_is_refused(version: int) -> None:
    # A count of zero is written as 1, null as 0; the array stands before its tags.
    no_topics, no_partitions = request(version), request(version, 0)
    assert by_hand(version, no_topics) == compiled(version, no_topics) != "NullNotAllowed"
    assert no_topics.endswith(b"\x01\x00")
    assert no_partitions.endswith(b"\x01\x00\x00")
    for bad in (no_topics[:-2] + b"\x00\x00", no_partitions[:-3] + b"\x00\x00\x00"):
        assert by_hand(version, bad) == compiled(version, bad) == "NullNotAllowed"


@pytest.mark.parametrize("version", [9, 12, 13])
def test_an_array_that_cannot_be_there_is_refused_before_its_elements_are_read(
    version: int,
) -> None:
    for bad in (request(version)[:-2], request(version, 0)[:-3]):
        with pytest.raises(Truncated, match="40 elements of at least"):
            read_produce(version, bad + uvarint(41) + bytes(30))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("partition_counts", "fits"),
    [((1, 1, 1), True), ((5,), True), ((1, 1, 2), False), ((6,), False), ((0,) * 7, False)],
)
def test_topics_and_partitions_share_one_budget(
    version: int, partition_counts: tuple[int, ...], fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "ELEMENTS_MAX", 6)
    data = request(version, *partition_counts)
    if fits:
        assert len(read_produce(version, data).topics) == len(partition_counts)
        reader(ProduceRequest, version)(data, 0, 6)
        return
    with pytest.raises(TooManyElements):
        read_produce(version, data)
    with pytest.raises(TooManyElements):
        reader(ProduceRequest, version)(data, 0, 6)


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
    with pytest.raises(UnsupportedVersion) as caught:
        read_produce(version, b"")
    assert caught.value.api_key == 0
