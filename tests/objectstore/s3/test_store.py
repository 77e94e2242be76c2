"""What the adapter makes of a store that refuses, stumbles, cheats or says nothing."""

import asyncio
import gc
import random
import re
from collections.abc import Iterator

import pytest
from crc32c import crc32c

from tests.objectstore.s3.scripted import CLOSE, SILENCE, TRICKLE, Scripted, refused, reply
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import (
    NoSuchObject,
    ObjectChanged,
    StoreBadRequest,
    StoreDenied,
    StoreError,
    StoreLies,
    StoreThrottled,
    StoreUnavailable,
)
from tierlog.objectstore.port import CRC_BYTES, Outcome, Part, Span, Upload
from tierlog.objectstore.s3 import S3Settings, S3Store
from tierlog.objectstore.s3.checksums import to_header
from tierlog.types import Bytes, Position

TEN = Span(Position(5), Position(15))


@pytest.fixture(scope="module")
def server() -> Iterator[Scripted]:
    server = Scripted()
    yield server
    server.close()


@pytest.fixture(scope="module")
def module_store(server: Scripted) -> S3Store:
    """Building one takes a tenth of a second. It is not bound to a loop."""
    return opened(server.endpoint)


@pytest.fixture
def store(module_store: S3Store, server: Scripted) -> Iterator[S3Store]:
    yield module_store
    server.hang_up()


def opened(endpoint: str, **more: float) -> S3Store:
    # Long beside what a busy machine takes to run a thread, short for the tests that wait it out.
    limits = {"silence_s": 2.0, "call_s": 4.0, **more}
    settings = S3Settings(endpoint=endpoint, access_key="k", secret_key="s", **limits)  # type: ignore[arg-type]  # as the caller gives them
    return S3Store(local_env(), bucket="bucket", prefix="pre", settings=settings)


def range_reply(data: bytes = b"0123456789", where: str = "5-14/100", **headers: str) -> bytes:
    return reply(206, data, content_range=f"bytes {where}", etag='"e"', **headers)


def named(value: object) -> str | None:
    """A short name for a reply."""
    if not isinstance(value, bytes):
        return None
    code = re.search(rb"<Code>(.*)</Code>", value)
    return (value[9:12] + b" " + (code[1] if code else value[-9:])).decode().strip()


# Reads


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(404, "NoSuchKey"), NoSuchObject),
        (refused(404, "NoSuchVersion"), NoSuchObject),
        (refused(405, "MethodNotAllowed"), NoSuchObject),
        (refused(404, "NoSuchBucket"), StoreDenied),
        (refused(403, "AccessDenied"), StoreDenied),
        (refused(400, "ExpiredToken"), StoreDenied),
        (refused(301, "PermanentRedirect"), StoreDenied),
        (refused(400, "InvalidArgument"), StoreBadRequest),
        (refused(416, "InvalidRange"), StoreBadRequest),
        (refused(412, "PreconditionFailed"), ObjectChanged),
        (refused(503, "SlowDown"), StoreThrottled),
        (refused(429, ""), StoreThrottled),
        (refused(500, "InternalError"), StoreUnavailable),
        (refused(400, "RequestTimeout"), StoreUnavailable),
        (refused(409, "OperationAborted"), StoreUnavailable),
        (CLOSE, StoreUnavailable),
        (SILENCE, StoreUnavailable),
        (b"HTTP/1.1 what" + CLOSE, StoreUnavailable),
        (range_reply(b"01234", content_length="10") + CLOSE, StoreUnavailable),
        (range_reply(b"01234", content_length="10") + SILENCE, StoreUnavailable),
    ],
    ids=named,
)
async def test_a_range_that_does_not_come_is_an_error_by_what_to_do_next(
    store: S3Store, server: Scripted, answer: bytes, error: type[StoreError]
) -> None:
    server.will(answer)
    with pytest.raises(StoreError) as caught:
        await store.get("a", span=TEN, etag="e")
    assert type(caught.value) is error
    assert len(server.requests) == 1  # Repeating is for others to decide.


async def test_a_range_that_came_is_the_one_that_was_asked_for(
    store: S3Store, server: Scripted
) -> None:
    server.will(range_reply())
    got = await store.get("a b/ü%2F+~", span=TEN, etag="e")
    assert bytes(got.data) == b"0123456789"
    assert (got.stat.key, got.stat.size, got.stat.etag) == ("a b/ü%2F+~", 100, "e")
    (request,) = server.requests
    assert request.target == "/bucket/pre/a%20b/%C3%BC%252F%2B~"
    assert (request.headers["range"], request.headers["if-match"]) == ("bytes=5-14", '"e"')


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (range_reply(where="6-15/100"), StoreLies),
        (range_reply(b"0123"), StoreLies),
        (reply(206, b"0123456789", etag='"e"'), StoreLies),
        (reply(200, b"x" * 100, etag='"e"'), StoreLies),
        (reply(200, b"x" * 70_000, etag='"e"', content_length="1000000000") + SILENCE, StoreLies),
        (range_reply(b"01234", where="5-9/10"), StoreBadRequest),
        (reply(206, b"0123456789", content_range="bytes 5-14/100", etag='"f"'), ObjectChanged),
    ],
    ids=["elsewhere", "short", "nowhere", "whole", "without end", "past the end", "another object"],
)
async def test_a_range_that_is_another_is_refused(
    store: S3Store, server: Scripted, answer: bytes, error: type[StoreError]
) -> None:
    server.will(answer)
    with pytest.raises(error):
        await store.get("a", span=TEN, etag="e")


async def test_a_whole_object_is_compared_with_the_checksum_that_the_store_keeps(
    store: S3Store, server: Scripted
) -> None:
    right = {"x_amz_checksum_crc32c": to_header(crc32c(b"data"))}
    server.will(reply(200, b"data", **right), reply(200, b"dada", **right))
    assert (await store.get("a")).stat.crc32c == crc32c(b"data")
    with pytest.raises(StoreUnavailable, match="other bytes"):
        await store.get("a")


async def test_a_stat_without_words_is_asked_again_with_them(
    store: S3Store, server: Scripted
) -> None:
    server.will(reply(404, content_length="0"), refused(404, "NoSuchBucket"))
    with pytest.raises(StoreDenied) as denied:
        await store.head("a")
    assert str(denied.value) == (
        "s3://bucket/pre/a: the bucket bucket does not exist; create it or correct --store"
    )
    assert [each.method for each in server.requests] == ["HEAD", "GET"]


async def test_a_stat_that_is_refused_reads_one_byte_at_most(
    store: S3Store, server: Scripted
) -> None:
    server.will(reply(404, content_length="0"), refused(404, "NoSuchKey"))
    with pytest.raises(NoSuchObject) as missing:
        await store.head("a")
    assert missing.value.also_asked == ("get",)
    assert server.requests[1].headers["range"] == "bytes=0-0"


@pytest.mark.parametrize("there", [range_reply(b"0"), reply(416)], ids=["bytes", "empty"])
async def test_an_object_that_comes_between_is_asked_for_again(
    store: S3Store, server: Scripted, there: bytes
) -> None:
    server.will(
        reply(404, content_length="0"), there, reply(200, b"", content_length="5", etag="e")
    )
    assert (await store.head("a")).size == 5
    assert [each.method for each in server.requests] == ["HEAD", "GET", "HEAD"]


async def test_a_bucket_elsewhere_says_where(store: S3Store, server: Scripted) -> None:
    server.will(refused(301, "PermanentRedirect", x_amz_bucket_region="eu-west-3"))
    with pytest.raises(StoreDenied, match="eu-west-3"):
        await store.get("a")


async def test_a_trickle_is_given_up(store: S3Store, server: Scripted) -> None:
    server.will(range_reply(b"0", content_length="1000000") + TRICKLE)
    with pytest.raises(StoreUnavailable, match="time limit"):
        await store.get("a", span=Span(Position(0), Position(1000)))


# Writes


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (reply(200, etag='"new"', x_amz_version_id="v"), Outcome.WON),
        (refused(412, "PreconditionFailed"), Outcome.LOST),
        (refused(404, "NoSuchKey"), Outcome.LOST),
        (refused(409, "ConditionalRequestConflict"), Outcome.AMBIGUOUS),
        (refused(500, "InternalError"), Outcome.AMBIGUOUS),
        (refused(503, "SlowDown"), Outcome.AMBIGUOUS),
        (refused(400, "RequestTimeout"), Outcome.AMBIGUOUS),
        (CLOSE, Outcome.AMBIGUOUS),
        (SILENCE, Outcome.AMBIGUOUS),
        (reply(200), Outcome.AMBIGUOUS),
    ],
    ids=named,
)
async def test_a_conditional_write_is_sent_once_and_tells_what_is_certain(
    store: S3Store, server: Scripted, answer: bytes, outcome: Outcome
) -> None:
    server.will(answer)
    written = await store.put_if_match("HEAD", BytesBody(b"data"), etag="old")
    assert written.outcome is outcome
    (request,) = server.requests
    assert request.body == b"data"
    assert request.headers["if-match"] == '"old"'
    assert request.headers["x-amz-checksum-crc32c"] == to_header(crc32c(b"data"))
    assert request.headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
    # A signature that does not cover them would leave them to whoever sits between.
    signed = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    assert {"if-match", "x-amz-checksum-crc32c", "host"} <= set(signed.split(";"))
    if outcome is Outcome.WON:
        assert (written.etag, written.version_id) == ("new", "v")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused(403, "AccessDenied"), StoreDenied),
        (refused(404, "NoSuchBucket"), StoreDenied),
        (refused(400, "BadDigest"), StoreBadRequest),
    ],
    ids=named,
)
async def test_a_conditional_write_raises_what_certainly_did_not_happen(
    store: S3Store, server: Scripted, answer: bytes, error: type[StoreError]
) -> None:
    server.will(answer)
    with pytest.raises(error):
        await store.put_if_absent("HEAD", BytesBody(b"data"))


async def test_a_completion_is_sent_once_and_an_error_inside_200_is_seen(
    store: S3Store, server: Scripted
) -> None:
    upload = Upload(key="a", id="u")
    parts = [Part(1, "e", 4, crc32c(b"data"))]
    failed = b"<Error><Code>InternalError</Code></Error>"
    for answer in (reply(200, failed), refused(500, "InternalError"), CLOSE):
        server.will(answer)
        written = await store.complete_upload(upload, parts, crc32c=crc32c(b"data"))
        assert written.outcome is Outcome.AMBIGUOUS
        assert len(server.requests) == 1
        assert server.requests[0].headers["if-none-match"] == "*"


class Failing(BytesBody):
    """A disk that stops in the middle."""

    def pieces(self) -> Iterator[Bytes]:
        yield b"da"
        raise OSError("the disk is gone")


class Short(BytesBody):
    def pieces(self) -> Iterator[Bytes]:
        yield b"da"


class Long(BytesBody):
    def pieces(self) -> Iterator[Bytes]:
        yield b"data and more"


async def test_an_error_of_the_disk_is_not_taken_for_one_of_the_store(
    store: S3Store, server: Scripted
) -> None:
    server.will()
    with pytest.raises(OSError, match="the disk is gone"):
        await store.put_if_absent("a", Failing(b"data"))
    assert not server.requests


@pytest.mark.parametrize("body", [Short(b"data"), Long(b"data")])
async def test_a_body_of_another_length_is_never_whole(
    store: S3Store, server: Scripted, body: BytesBody
) -> None:
    server.will()
    with pytest.raises(StoreBadRequest):
        await store.put_if_absent("a", body)
    assert not server.requests


# The store as a whole


async def test_a_store_that_is_not_there_is_unavailable() -> None:
    store = opened("http://127.0.0.1:9")  # The port of `discard`, on which nobody listens.
    with pytest.raises(StoreUnavailable):
        await store.get("a")
    with pytest.raises(StoreUnavailable):
        await anext(aiter(store.list("")))
    assert (await store.put_if_absent("a", BytesBody(b""))).outcome is Outcome.AMBIGUOUS
    await store.close()


async def test_reads_that_hang_do_not_hold_up_a_manifest(store: S3Store, server: Scripted) -> None:
    server.will(*[SILENCE] * 8, reply(200, etag='"e"'))
    reads = [asyncio.ensure_future(store.get("a", span=TEN)) for _ in range(8)]
    await asyncio.to_thread(server.wait_for, 8)
    written = await store.put_if_absent("HEAD", BytesBody(b"data"))
    assert written.outcome is Outcome.WON
    assert not any(read.done() for read in reads)
    failed = await asyncio.gather(*reads, return_exceptions=True)
    assert all(isinstance(each, StoreUnavailable) for each in failed)


async def test_without_credentials_it_is_denied(
    monkeypatch: pytest.MonkeyPatch, server: Scripted
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = S3Store(local_env(), bucket="b", settings=S3Settings(endpoint=server.endpoint))
    with pytest.raises(
        StoreDenied, match="no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_AC"
    ):
        await store.get("a")
    with pytest.raises(StoreDenied, match="no credentials"):
        await store.put_if_absent("a", BytesBody(b""))
    await store.close()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://no-such-host.invalid:81"])
async def test_a_service_that_is_not_there_is_named_with_its_port(endpoint: str) -> None:
    store = opened(endpoint, call_s=30.0)
    for call in (store.get("a"), store.begin_upload("a")):
        with pytest.raises(StoreUnavailable) as away:
            await call
        sentence = str(away.value)
        assert sentence.startswith(f"s3://bucket/pre/a: {endpoint[7:]} does not answer: ")
        assert "s3.endpoint" in sentence
        assert "Error" not in sentence
        assert "0x" not in sentence
    await store.close()


async def test_silence_and_a_cut_are_told_apart(store: S3Store, server: Scripted) -> None:
    server.will(SILENCE)
    with pytest.raises(StoreUnavailable, match="it is silent for too long"):
        await store.get("a")
    server.will(CLOSE)
    with pytest.raises(StoreUnavailable, match="the connection was cut"):
        await store.get("a")


def test_half_a_pair_of_keys_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    with pytest.raises(StoreDenied, match="AWS_SECRET_ACCESS_KEY"):
        S3Store(local_env(), bucket="bucket", settings=S3Settings(endpoint="http://127.0.0.1:9"))


CHUNK = Span(Position(0), Position(8 << 20))


async def test_chunks_share_memory_one_after_the_other_and_never_two_at_once(
    store: S3Store, server: Scripted
) -> None:
    bodies = [bytes([number]) * CHUNK.size for number in range(3)]
    server.will(
        *(reply(206, body, content_range=f"bytes 0-{CHUNK.size - 1}/9000000") for body in bodies)
    )
    first = (await store.get("a", span=CHUNK)).data
    second = (await store.get("a", span=CHUNK)).data
    assert (first, second) == (bodies[0], bodies[1])
    slabs = store._transport._slabs
    assert slabs.used == 2
    del first
    assert slabs.used == 1
    third = (await store.get("a", span=CHUNK)).data
    assert (second, third) == (bodies[1], bodies[2])
    assert slabs.used == 2


@pytest.mark.parametrize(
    ("end", "words"), [(CLOSE, "connection was cut"), (SILENCE, "silent for too long")]
)
async def test_a_chunk_that_ends_half_way_is_an_error_and_its_memory_is_free(
    store: S3Store, server: Scripted, end: bytes, words: str
) -> None:
    where = f"bytes 0-{CHUNK.size - 1}/9000000"
    half = reply(206, bytes(5 << 20), content_range=where, content_length=str(CHUNK.size))
    server.will(half + end, reply(206, b"x" * CHUNK.size, content_range=where))
    with pytest.raises(StoreUnavailable, match=words):
        await store.get("a", span=CHUNK)
    got = await store.get("a", span=CHUNK)
    assert got.data == b"x" * CHUNK.size
    del got
    gc.collect()
    async with asyncio.timeout(30):
        while store._transport._slabs.used:  # noqa: ASYNC110 - the loop lets go a turn later.
            await asyncio.sleep(0)


@pytest.mark.parametrize("rest", [0, 1, 4097])
async def test_a_chunk_comes_with_the_checksum_of_every_mebibyte(
    store: S3Store, server: Scripted, rest: int
) -> None:
    size = (5 << 20) + rest
    body = random.Random(rest).randbytes(size)
    server.will(reply(206, body, content_range=f"bytes 0-{size - 1}/9000000"))
    got = await store.get("a", span=Span(Position(0), Position(size)))
    pieces = [body[start : start + CRC_BYTES] for start in range(0, size, CRC_BYTES)]
    assert got.data == body
    assert got.crcs == tuple(crc32c(piece) for piece in pieces)


async def test_after_a_chunk_its_connection_is_used_again(store: S3Store, server: Scripted) -> None:
    where = f"bytes 0-{CHUNK.size - 1}/9000000"
    server.will(*(reply(206, bytes(CHUNK.size), content_range=where) for _ in range(3)))
    await store.get("a", span=CHUNK)
    count = store._transport._pool.num_connections
    for _ in range(2):
        await store.get("a", span=CHUNK)
    assert store._transport._pool.num_connections == count
