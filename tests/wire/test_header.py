"""Headers, and whole requests and responses with them."""

from __future__ import annotations

import pytest

from tierlog.wire.api_keys import ApiKey
from tierlog.wire.errors import (
    BadLength,
    BadString,
    EncodeError,
    TooManyElements,
    TrailingBytes,
    Truncated,
    UnknownApi,
    UnsupportedVersion,
)
from tierlog.wire.header import (
    HEADER_TAGS_MAX,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)
from tierlog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tierlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tierlog.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tierlog.wire.primitives import uvarint

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def request(version: int, client_id: str | None = "me") -> bytes:
    parts = encode_request(HEARTBEAT, version, correlation_id=77, client_id=client_id)
    return b"".join(parts)


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("client_id", ["me", "", None, "grüße"])
def test_a_request_comes_back_with_its_header(version: int, client_id: str | None) -> None:
    data = request(version, client_id)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    header, message = decode_request(data[4:])
    assert header == RequestHeader(
        api_key=12, api_version=version, correlation_id=77, client_id=client_id
    )
    assert message == HEARTBEAT


def test_the_client_id_keeps_its_two_byte_length_in_flexible_versions() -> None:
    assert request(4)[12:].startswith(b"\x00\x02me\x00")


def test_tags_in_a_request_header_are_skipped() -> None:
    plain = request(4)[4:]
    tagged = plain.replace(b"\x00\x02me\x00", b"\x00\x02me\x01\x05\x02hi")
    assert decode_request(tagged) == decode_request(plain)


def tagged(count: int, *, value: bytes = b"") -> bytes:
    """A request whose header has so many tags, all with this value."""
    tags = b"".join(uvarint(tag) + uvarint(len(value)) + value for tag in range(count))
    return request(4)[4:].replace(b"\x00\x02me\x00", b"\x00\x02me" + uvarint(count) + tags)


def test_tags_in_a_header_are_few() -> None:
    assert decode_request(tagged(HEADER_TAGS_MAX)) == decode_request(request(4)[4:])
    for count in (HEADER_TAGS_MAX + 1, 1000):
        with pytest.raises(TooManyElements, match="header tags at byte 12: more than 16 tags"):
            decode_request(tagged(count))


def test_tags_in_a_header_are_small() -> None:
    assert decode_request(tagged(1, value=bytes(4000))) == decode_request(request(4)[4:])
    with pytest.raises(BadLength, match="header tags"):
        decode_request(tagged(1, value=bytes(5000)))
    with pytest.raises(BadLength, match="header tags"):
        decode_request(tagged(5, value=bytes(1000)))


def test_tags_in_the_header_of_a_response_are_bounded_too() -> None:
    response = HeartbeatResponse(throttle_time_ms=0, error_code=25)
    body = b"".join(encode_response(response, 4, correlation_id=1))[9:]
    tags = b"".join(uvarint(tag) + b"\0" for tag in range(17))
    with pytest.raises(TooManyElements):
        decode_response(ApiKey.HEARTBEAT, 4, bytes(4) + uvarint(17) + tags + body)


def test_an_unknown_api_tells_the_correlation_id_to_answer_under() -> None:
    with pytest.raises(UnknownApi) as caught:
        decode_request(b"\x03\xe7\x00\x00\x00\x00\x00\x09\xff\xff")
    assert (caught.value.api_key, caught.value.correlation_id) == (999, 9)


def test_an_unknown_version_tells_the_correlation_id_to_answer_under() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(b"\x00\x12\x00\x63\x00\x00\x00\x09\xff\xff")
    error = caught.value
    assert (error.api_key, error.version, error.correlation_id) == (18, 99, 9)


def test_an_unknown_version_of_a_response_tells_its_api() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        decode_response(ApiKey.HEARTBEAT, 99, bytes(20))
    assert caught.value.api_key == ApiKey.HEARTBEAT
    with pytest.raises(UnsupportedVersion) as caught:
        encode_request(HEARTBEAT, 99, correlation_id=1, client_id=None)
    assert caught.value.api_key == ApiKey.HEARTBEAT


def test_a_damaged_header_is_refused() -> None:
    whole = request(4)[4:]
    for cut in range(13):
        with pytest.raises(Truncated):
            decode_request(whole[:cut])
    with pytest.raises(BadLength):
        read_request_header(whole[:8] + b"\x80\x00" + whole[10:])
    with pytest.raises(BadString):
        read_request_header(whole.replace(b"me", b"\xff\xff"))


def test_bytes_after_a_request_are_refused() -> None:
    with pytest.raises(TrailingBytes):
        decode_request(request(4)[4:] + b"\0")


@pytest.mark.parametrize("version", range(5))
def test_a_response_comes_back_with_its_correlation_id(version: int) -> None:
    message = HeartbeatResponse(throttle_time_ms=0, error_code=25)
    data = b"".join(encode_response(message, version, correlation_id=-5))
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert decode_response(ApiKey.HEARTBEAT, version, data[4:]) == (-5, message)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_answered_with_the_oldest_header(version: int) -> None:
    """The client cannot know yet what the server understands."""
    message = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]
    )
    data = b"".join(encode_response(message, version, correlation_id=1))
    assert data[8:10] == b"\x00\x23"  # the error code, 35, without a tag section before it
    assert decode_response(ApiKey.API_VERSIONS, version, data[4:]) == (1, message)


def test_api_versions_requests_are_flexible_in_the_header_too() -> None:
    message = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    data = b"".join(encode_request(message, 3, correlation_id=1, client_id=None))
    assert data[12:15] == b"\xff\xff\x00"
    assert decode_request(data[4:])[1] == message


def test_records_travel_as_parts_of_their_own() -> None:
    records = memoryview(bytes(1000))
    message = ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=records)]
            )
        ],
    )
    parts = encode_request(message, 9, correlation_id=1, client_id=None)
    assert any(part is records for part in parts)
    assert decode_request(b"".join(parts)[4:])[1] == message


@pytest.mark.parametrize("version", [0, 4])
def test_headers_that_cannot_be_written_raise_our_own_error(version: int) -> None:
    for correlation_id, client_id in ((2**31, "me"), (1, "\ud800"), (1, "x" * 40_000)):
        with pytest.raises(EncodeError):
            encode_request(HEARTBEAT, version, correlation_id=correlation_id, client_id=client_id)
    response = HeartbeatResponse(throttle_time_ms=0, error_code=0)
    with pytest.raises(EncodeError):
        encode_response(response, version, correlation_id=2**31)
    with pytest.raises(EncodeError):
        encode_response(
            HeartbeatResponse(throttle_time_ms=0, error_code=2**15), version, correlation_id=1
        )
