"""A fetch that asks on is read as the whole parser would read it."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierlog.wire.codec import decode_whole, encode
from tierlog.wire.fetchopening import FetchOpenings
from tierlog.wire.header import encode_request, read_request_header
from tierlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tierlog.wire.opening import OPENING_BYTES_MAX, OPENINGS_MAX

VERSIONS = range(4, 19)


def asked(version: int, offset: int, *, name: str = "topic", **changes: Any) -> FetchRequest:
    partition = FetchPartition(
        partition=changes.get("partition", 0),
        current_leader_epoch=3 if version >= 9 else -1,
        fetch_offset=offset,
        partition_max_bytes=changes.get("bytes_max", 1 << 20),
    )
    topic = FetchTopic(
        topic=name, topic_id=name.encode().ljust(16, b"\0")[:16], partitions=[partition]
    )
    replica = ReplicaState(replica_id=-1, replica_epoch=changes.get("replica_epoch", -1))
    return FetchRequest(
        max_wait_ms=changes.get("wait_ms", 500),
        min_bytes=1,
        topics=[topic],
        rack_id="here" if version >= 11 else "",
        replica_state=replica if version >= 15 and "replica_epoch" in changes else None,
    )


def frame(request: FetchRequest, version: int, *, correlation_id: int = 1) -> memoryview:
    parts = encode_request(request, version, correlation_id=correlation_id, client_id="me")
    return memoryview(bytearray(b"".join(parts)))[4:]


def learn(openings: FetchOpenings[int], request: FetchRequest, version: int, value: int) -> None:
    one = frame(request, version)
    topic = request.topics[0]
    key = topic.topic_id if version >= 13 else topic.topic
    openings.remember(one, read_request_header(one)[1], version, key, value)


def remembered(version: int, *partitions: int, **changes: Any) -> FetchOpenings[int]:
    openings: FetchOpenings[int] = FetchOpenings()
    for partition in partitions:
        learn(openings, asked(version, 0, partition=partition, **changes), version, partition + 1)
    return openings


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [0, 1, 255, 2**31, 2**63 - 1, -1])
def test_finds_the_offset(version: int, offset: int) -> None:
    openings = remembered(version, 0, 7)
    request = asked(version, offset, partition=7)
    assert openings.find(frame(request, version, correlation_id=99)) == (99, offset, 8)


@pytest.mark.parametrize("version", VERSIONS)
def test_whatever_else_differs_is_left_to_the_parser(version: int) -> None:
    openings = remembered(version, 0)
    for other in (
        asked(version, 0, partition=1),
        asked(version, 0, name="topid"),
        asked(version, 0, bytes_max=1),
        asked(version, 0, wait_ms=0),
    ):
        assert openings.find(frame(other, version)) is None
    for other_version in VERSIONS:
        if other_version != version:
            assert openings.find(frame(asked(other_version, 0), other_version)) is None


@pytest.mark.parametrize("version", [15, 18])
def test_tagged_fields_are_compared_with_the_rest(version: int) -> None:
    openings = remembered(version, 0, replica_epoch=5)
    same = frame(asked(version, 4, replica_epoch=5), version)
    assert openings.find(same) == (1, 4, 1)
    assert openings.find(frame(asked(version, 4, replica_epoch=6), version)) is None
    assert openings.find(frame(asked(version, 4), version)) is None


@given(st.sampled_from(VERSIONS), st.integers(0, 200), st.integers(0, 255))
def test_what_is_found_is_what_the_parser_reads(version: int, at: int, byte: int) -> None:
    openings = remembered(version, 0)
    changed = frame(asked(version, 77), version)
    changed[at % len(changed)] = byte
    found = openings.find(changed)
    if found is None:
        return
    header, position = read_request_header(changed)
    request = decode_whole(FetchRequest, version, changed, position)
    assert (header.correlation_id, request.topics[0].partitions[0].fetch_offset) == found[:2]
    assert encode(request, version) == encode(asked(version, found[1]), version)


@pytest.mark.parametrize("version", [12, 13])
def test_a_length_in_too_many_bytes_is_not_remembered(version: int) -> None:
    plain = frame(asked(version, 5), version)
    _, position = read_request_header(plain)
    at = position + 25
    assert plain[at] == 2
    longer = memoryview(bytearray(bytes(plain[:at]) + b"\x82\0" + bytes(plain[at + 1 :])))
    openings: FetchOpenings[int] = FetchOpenings()
    key = b"topic".ljust(16, b"\0") if version >= 13 else "topic"
    openings.remember(longer, position, version, key, 1)
    assert openings.find(longer) is None


def test_long_requests_are_not_remembered() -> None:
    for size in (OPENING_BYTES_MAX - 120, OPENING_BYTES_MAX + 1):
        openings: FetchOpenings[int] = FetchOpenings()
        request = asked(11, 0, name="n" * size)
        learn(openings, request, 11, 1)
        assert (openings.find(frame(request, 11)) is None) == (size > OPENING_BYTES_MAX)


def test_the_number_of_openings_is_bounded() -> None:
    assert len(remembered(11, *range(3 * OPENINGS_MAX))._known) <= OPENINGS_MAX


def test_nothing_is_found_before_anything_is_remembered() -> None:
    openings: FetchOpenings[int] = FetchOpenings()
    for size in (0, 1, 100):
        assert openings.find(memoryview(struct.pack(f">{size}x"))) is None
