"""A request that begins like another is read as the whole parser would read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.wire.errors import WireError
from tierlog.wire.header import encode_request, read_request_header
from tierlog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tierlog.wire.opening import OPENING_BYTES_MAX, OPENINGS_MAX, ProduceOpenings
from tierlog.wire.produce import read_produce

VERSIONS = range(3, 14)


def frame(
    version: int, records: bytes, *, correlation_id: int = 1, name: str = "topic", index: int = 0
) -> memoryview:
    topic = TopicProduceData(
        name=name,
        topic_id=name.encode().ljust(16, b"\0")[:16],
        partition_data=[PartitionProduceData(index=index, records=records)],
    )
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    parts = encode_request(request, version, correlation_id=correlation_id, client_id="me")
    return memoryview(bytearray(b"".join(parts)))[4:]


def remembered(version: int, *indexes: int, records: bytes = b"first") -> ProduceOpenings[int]:
    openings: ProduceOpenings[int] = ProduceOpenings()
    for index in indexes:
        openings.remember(frame(version, records, index=index), version, len(records), index + 1)
    return openings


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 61, 126, 127, 128, 16_382, 16_383, 16_384, 70_000, 2_100_000])
def test_finds_the_batch_whatever_its_size(version: int, size: int) -> None:
    openings = remembered(version, 0, 7)
    records = b"x" * size
    found = openings.find(frame(version, records, correlation_id=99, index=7))
    assert found is not None
    assert (found[0], bytes(found[1]), found[2]) == (99, records, 8)


@pytest.mark.parametrize("version", VERSIONS)
def test_other_partitions_topics_and_versions_are_not_taken_for_it(version: int) -> None:
    openings = remembered(version, 0)
    assert openings.find(frame(version, b"x", index=1)) is None
    assert openings.find(frame(version, b"x", name="topid")) is None
    assert openings.find(frame(version, b"x", name="longer than that")) is None
    for other in VERSIONS:
        if other != version:
            assert openings.find(frame(other, b"x")) is None


@pytest.mark.parametrize("version", [3, 9])
def test_long_openings_are_not_remembered(version: int) -> None:
    openings: ProduceOpenings[int] = ProduceOpenings()
    for size in (OPENING_BYTES_MAX - 40, OPENING_BYTES_MAX + 1):
        one = frame(version, b"x", name="n" * size)
        openings.remember(one, version, 1, size)
        assert (openings.find(one) is None) == (size > OPENING_BYTES_MAX)


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_found_before_anything_is_remembered(version: int) -> None:
    assert ProduceOpenings[int]().find(frame(version, b"x")) is None


def test_the_number_of_openings_is_bounded() -> None:
    openings = remembered(7, *range(3 * OPENINGS_MAX))
    assert len(openings._known) <= OPENINGS_MAX


def test_an_empty_batch_is_left_to_the_parser() -> None:
    found = remembered(9, 0).find(frame(9, b""))
    assert found is None or len(found[1]) == 0


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_a_mangled_frame_is_read_alike_or_not_at_all(version: int, data: st.DataObject) -> None:
    """Flip, cut or append: where the opening answers, the parser answers the same."""
    openings = remembered(version, 0, 1)
    made = bytearray(frame(version, data.draw(st.binary(min_size=1, max_size=300)), index=1))
    for _ in range(data.draw(st.integers(0, 3))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(made)))
    if data.draw(st.booleans()):
        made = made[:cut]
    made += data.draw(st.binary(max_size=3))
    view = memoryview(made)
    found = openings.find(view)
    if found is None:
        return
    correlation_id, batch, value = found
    try:
        header, position = read_request_header(view)
        produced = read_produce(version, view, position)
    except WireError:
        pytest.fail("the parser refuses what the opening took")
    ((_, ((index, records),)),) = produced.topics
    assert (header.correlation_id, index + 1, bytes(records or b"")) == (
        correlation_id,
        value,
        bytes(batch),
    )
