"""The recorder itself: what it refuses, and that its checks can fail."""

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from tests.compat import golden
from tests.compat.checks import check_request, check_response
from tests.compat.golden import Golden
from tests.compat.recorder import CLASSIC, Recorder
from tierlog.records.errors import BatchError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.errors import WireError
from tierlog.wire.header import decode_response, encode_request
from tierlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tierlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tierlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tierlog.wire.schema import Request, Response


@pytest.fixture
async def recorder() -> AsyncIterator[Recorder]:
    made = Recorder()
    await made.start()
    yield made
    await made.stop()


async def ask(recorder: Recorder, frame: bytes) -> bytes:
    """The answer without its size prefix; b"" when the recorder hangs up."""
    reader, writer = await asyncio.open_connection(recorder.world.host, recorder.world.port)
    try:
        writer.write(frame)
        size = await reader.readexactly(4)
        return await reader.readexactly(int.from_bytes(size, "big"))
    except asyncio.IncompleteReadError:
        return b""
    finally:
        writer.close()
        await writer.wait_closed()


async def call(recorder: Recorder, request: Request, version: int) -> Response:
    frame = b"".join(encode_request(request, version, correlation_id=5, client_id="t"))
    correlation_id, response = decode_response(
        ApiKey(request.api_key), version, await ask(recorder, frame)
    )
    assert correlation_id == 5
    return response


async def test_api_versions_beyond_us_is_answered_in_v0_with_what_we_speak(
    recorder: Recorder,
) -> None:
    body = struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1) + b"\0"
    answer = await ask(recorder, struct.pack(">i", len(body)) + body)
    correlation_id, response = decode_response(ApiKey.API_VERSIONS, 0, answer)
    assert correlation_id == 7
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    rows = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
    assert rows[ApiKey.API_VERSIONS] == (0, 4)
    assert rows[ApiKey.PRODUCE] == (0, 13)  # shown from 0 on: librdkafka reads features off it
    assert recorder.faults == []


async def test_a_classic_recorder_offers_no_flexible_version() -> None:
    recorder = Recorder(ceilings=CLASSIC)
    await recorder.start()
    response = await call(recorder, ApiVersionsRequest(), 2)
    await recorder.stop()
    assert isinstance(response, ApiVersionsResponse)
    rows = {row.api_key: row.max_version for row in response.api_keys}
    assert rows[ApiKey.FETCH] == 11
    assert ApiKey.DESCRIBE_CLUSTER not in rows  # it was born flexible


@pytest.mark.parametrize(
    "body",
    [
        b"\0\0",
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", ApiKey.METADATA, 0, 1, -1) + b"\xff",
        struct.pack(">hhih", ApiKey.METADATA, 1, 1, -1) + struct.pack(">i", 0) + b"!",
    ],
    ids=["short", "unknown API", "cut", "one byte too many"],
)
async def test_what_cannot_be_read_is_a_fault_and_ends_the_connection(
    recorder: Recorder, body: bytes
) -> None:
    assert await ask(recorder, struct.pack(">i", len(body)) + body) == b""
    assert len(recorder.faults) == 1
    assert recorder.exchanges == []


async def test_an_unknown_topic_is_listed_with_its_error_unless_it_may_be_created(
    recorder: Recorder,
) -> None:
    for allowed, error in [(False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (True, ErrorCode.NONE)]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=allowed
        )
        response = await call(recorder, request, 12)
        assert isinstance(response, MetadataResponse)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [("new", error)]


async def test_a_fetch_by_an_id_of_the_past_hears_that_the_id_is_unknown(
    recorder: Recorder,
) -> None:
    gone = recorder.world.create("t", 1).id
    recorder.world.create("t", 1)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(topic="t", topic_id=gone, partitions=[asked])],
    )
    by_id = await call(recorder, request, 13)
    assert isinstance(by_id, FetchResponse)
    assert by_id.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    by_name = await call(recorder, request, 12)
    assert isinstance(by_name, FetchResponse)
    assert by_name.responses[0].partitions[0].error_code == ErrorCode.NONE


def some_exchange(api: ApiKey) -> Golden:
    return next(line for path in golden.files() for line in golden.read(path) if line.api is api)


@pytest.mark.parametrize("api", [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.FETCH])
def test_the_checks_see_a_byte_too_many(api: ApiKey) -> None:
    line = some_exchange(api)
    with pytest.raises(WireError):
        check_request(line.request + b"\0")
    assert line.response is not None
    with pytest.raises(WireError):
        check_response(line.api, line.version, line.response + b"\0")


def test_the_checks_see_a_flipped_bit_in_a_batch() -> None:
    line = some_exchange(ApiKey.PRODUCE)
    value = line.request.index(b"a value that repeats")
    broken = bytearray(line.request)
    broken[value] ^= 1
    with pytest.raises(BatchError, match=r"(?i)crc|checksum"):
        check_request(bytes(broken))
