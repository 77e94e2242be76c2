"""The request that librdkafka writes wrongly is read as it was meant."""

import struct

import pytest

from tierlog.wire.errors import TrailingBytes
from tierlog.wire.header import decode_request, encode_request
from tierlog.wire.messages.metadata import MetadataRequest


def wrong(version: int, *, zeros: int = 4) -> bytes:
    """Metadata for all topics with `zeros` zero bytes where null is one."""
    right = MetadataRequest(topics=None, allow_auto_topic_creation=True)
    frame = b"".join(encode_request(right, version, correlation_id=7, client_id="rdkafka"))[4:]
    body = frame.rindex(b"rdkafka") + len(b"rdkafka") + 1
    assert frame[body] == 0
    return frame[:body] + bytes(zeros) + frame[body + 1 :]


@pytest.mark.parametrize("version", range(9, 14))
def test_four_zeros_for_all_topics_are_read_as_one(version: int) -> None:
    header, request = decode_request(wrong(version))
    assert isinstance(request, MetadataRequest)
    assert (header.correlation_id, request.topics) == (7, None)
    assert request.allow_auto_topic_creation


@pytest.mark.parametrize("zeros", [2, 5])
def test_other_surplus_bytes_are_refused(zeros: int) -> None:
    with pytest.raises(TrailingBytes):
        decode_request(wrong(12, zeros=zeros))


def test_the_right_request_is_left_alone() -> None:
    frame = wrong(12, zeros=1)
    assert struct.unpack_from(">hh", frame) == (3, 12)
    assert decode_request(frame)[1] == MetadataRequest(topics=None, allow_auto_topic_creation=True)
