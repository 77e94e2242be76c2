"""What a reader refuses, and how it says so."""

from __future__ import annotations

import pytest

from tierlog.wire.codec import decode, decode_whole, encode
from tierlog.wire.compiler import reader
from tierlog.wire.errors import (
    BadLength,
    BadString,
    BadTags,
    NullNotAllowed,
    TooManyElements,
    TrailingBytes,
    Truncated,
    UnsupportedVersion,
    WireError,
)
from tierlog.wire.messages.api_versions import ApiVersionsRequest
from tierlog.wire.messages.delete_groups import DeleteGroupsRequest
from tierlog.wire.messages.fetch import FetchRequest, FetchTopic, ReplicaState
from tierlog.wire.messages.heartbeat import HeartbeatRequest
from tierlog.wire.messages.list_groups import ListGroupsRequest
from tierlog.wire.messages.metadata import MetadataRequest
from tierlog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tierlog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tierlog.wire.primitives import ELEMENTS_MAX, read_uvarint, uvarint

HEARTBEAT = HeartbeatRequest(group_id="group", generation_id=3, member_id="member")


@pytest.mark.parametrize("version", range(5))
def test_every_cut_is_reported_as_an_error_of_the_room(version: int) -> None:
    data = encode(HEARTBEAT, version)
    for cut in range(len(data)):
        with pytest.raises(WireError):
            decode_whole(HeartbeatRequest, version, data[:cut])


def test_an_error_names_message_version_field_and_position() -> None:
    data = encode(HEARTBEAT, 4)
    with pytest.raises(Truncated) as caught:
        decode_whole(HeartbeatRequest, 4, data[:8])
    assert caught.value.message == "HeartbeatRequest"
    assert caught.value.version == 4
    assert "generation_id" in caught.value.field
    assert caught.value.position == 6
    assert "HeartbeatRequest v4" in str(caught.value)


def test_bytes_after_the_message_are_refused() -> None:
    with pytest.raises(TrailingBytes):
        decode_whole(HeartbeatRequest, 0, encode(HEARTBEAT, 0) + b"x")


def test_decode_returns_where_the_message_ends() -> None:
    data = encode(HEARTBEAT, 4)
    message, end = decode(HeartbeatRequest, 4, b"..." + data + b"...", 3)
    assert (message, end) == (HEARTBEAT, 3 + len(data))


@pytest.mark.parametrize("version", [-1, 5])
def test_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        decode(HeartbeatRequest, version, b"")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_read(kind: type) -> None:
    for version in range(5):
        assert (
            decode_whole(HeartbeatRequest, version, kind(encode(HEARTBEAT, version))) == HEARTBEAT
        )


def test_what_is_read_does_not_change_with_the_buffer() -> None:
    message = SaslAuthenticateRequest(auth_bytes=b"token")
    buffer = bytearray(encode(message, 2))
    made = decode_whole(SaslAuthenticateRequest, 2, buffer)
    buffer[:] = bytes(len(buffer))
    assert made == message


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BadString):
        decode_whole(HeartbeatRequest, 0, encode(HEARTBEAT, 0).replace(b"group", b"gr\xff\xffp"))


def test_null_is_refused_where_it_is_not_allowed() -> None:
    with pytest.raises(NullNotAllowed):
        decode_whole(HeartbeatRequest, 0, b"\xff\xff")
    with pytest.raises(NullNotAllowed):
        decode_whole(HeartbeatRequest, 4, b"\0")
    with pytest.raises(NullNotAllowed):
        decode_whole(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode_whole(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None


def test_negative_lengths_are_refused() -> None:
    with pytest.raises(BadLength):
        decode_whole(HeartbeatRequest, 0, b"\x80\x00" + bytes(100))
    with pytest.raises(BadLength):
        decode_whole(DeleteGroupsRequest, 0, b"\x80\x00\x00\x00")


def test_a_string_beyond_32767_bytes_is_refused() -> None:
    with pytest.raises(BadLength):
        decode_whole(HeartbeatRequest, 4, uvarint(32_769) + bytes(40_000))


def test_a_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(BadLength):
        decode_whole(HeartbeatRequest, 4, b"\xff\xff\xff\xff\xff\x01" + bytes(100))


def test_an_array_longer_than_its_bytes_is_refused_before_it_is_made() -> None:
    for version, count in ((0, b"\x7f\xff\xff\xff"), (2, uvarint(0x7FFFFFFF))):
        with pytest.raises(Truncated, match="elements of at least"):
            decode_whole(DeleteGroupsRequest, version, count + bytes(1000))


def test_more_than_a_million_elements_are_refused() -> None:
    count = ELEMENTS_MAX + 1
    with pytest.raises(TooManyElements):
        decode_whole(DeleteGroupsRequest, 2, uvarint(count + 1) + b"\x01" * count + b"\0")
    fits = uvarint(ELEMENTS_MAX + 1) + b"\x01" * ELEMENTS_MAX + b"\0"
    assert len(decode_whole(DeleteGroupsRequest, 2, fits).groups_names) == ELEMENTS_MAX


def test_elements_of_nested_arrays_count_together() -> None:
    topics = [
        OffsetForLeaderTopic(
            topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)] * 4
        )
    ] * 2
    data = encode(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
    read = reader(OffsetForLeaderEpochRequest, 4)
    assert read(data, 0, 10)[1] == len(data)
    with pytest.raises(TooManyElements):
        read(data, 0, 9)


# Tags (KIP-482)

NO_TAGS = encode(ListGroupsRequest(), 3)


def test_unknown_tags_are_skipped() -> None:
    assert NO_TAGS == b"\0"
    assert decode_whole(ListGroupsRequest, 3, b"\x02\x00\x03abc\x07\x00") == ListGroupsRequest()
    topic = FetchTopic(topic="t", partitions=[])
    nested = encode(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 12)
    with_tag = nested.replace(b"\x02t\x01\x00", b"\x02t\x01\x01\x63\x02hi")
    assert decode_whole(FetchRequest, 12, with_tag) == decode_whole(FetchRequest, 12, nested)


def test_unknown_tags_beside_known_ones_are_skipped() -> None:
    message = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[], cluster_id="c", replica_state=ReplicaState()
    )
    data = encode(message, 15)
    assert data.count(b"\x02\x00\x02\x02c\x01") == 1
    more = data.replace(b"\x02\x00\x02\x02c\x01", b"\x03\x00\x02\x02c\x01") + b"\x09\x01x"
    assert decode_whole(FetchRequest, 15, more) == message


@pytest.mark.parametrize("tags", [b"\x02\x05\x00\x05\x00", b"\x02\x05\x00\x04\x00"])
def test_tags_that_do_not_rise_are_refused(tags: bytes) -> None:
    with pytest.raises(BadTags):
        decode_whole(ListGroupsRequest, 3, tags)


def test_a_tag_beyond_the_bytes_is_refused() -> None:
    with pytest.raises(Truncated):
        decode_whole(ListGroupsRequest, 3, b"\x01\x00\x05abc")


def test_a_known_tag_of_the_wrong_size_is_refused() -> None:
    message = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], cluster_id="cc")
    data = encode(message, 12)
    assert data.endswith(b"\x01\x00\x03\x03cc")
    with pytest.raises(BadTags):
        decode_whole(FetchRequest, 12, data[:-5] + b"\x00\x04\x03ccX")


def test_more_tags_than_bytes_are_refused_before_they_are_read() -> None:
    with pytest.raises(Truncated, match="tagged fields"):
        decode_whole(ListGroupsRequest, 3, uvarint(0x7FFFFFFF) + bytes(100))


def test_any_byte_but_zero_is_true() -> None:
    data = encode(MetadataRequest(topics=[], allow_auto_topic_creation=True), 4)
    assert data.endswith(b"\x01")
    assert decode_whole(MetadataRequest, 4, data[:-1] + b"\x02").allow_auto_topic_creation is True


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, 0x7FFFFFFF, 0xFFFFFFFF])
def test_varints_round_trip(value: int) -> None:
    data = uvarint(value)
    assert read_uvarint(data, 0) == (value, len(data))


def test_long_text_and_text_beyond_ascii_round_trip() -> None:
    for text in ("", "x" * 126, "x" * 127, "x" * 16_383, "x" * 32_767, "日本" * 100):
        message = ApiVersionsRequest(client_software_name=text, client_software_version="")
        assert decode_whole(ApiVersionsRequest, 3, encode(message, 3)) == message
