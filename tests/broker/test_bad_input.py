"""Bad input against a node that runs: its sender is answered or hung up on, and nobody else feels
it. After every test a neighbour is served within a second; after all of them the node holds no
more memory or connections than before, and its log holds no trace.
"""

from __future__ import annotations

import re
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.broker.requests import create, fetch, list_offsets, metadata, produce
from tests.integration.running import Raw, Running, framed, running, within
from tierlog.records.attributes import Codec
from tierlog.records.batch import crc_of
from tierlog.records.record import Record, encode_batch
from tierlog.types import Offset, ProducerEpoch, ProducerId, TimestampMs
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.api_versions import ApiVersionsRequest
from tierlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tierlog.wire.messages.delete_topics import DeleteTopicsRequest
from tierlog.wire.messages.find_coordinator import FindCoordinatorRequest
from tierlog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tierlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tierlog.wire.primitives import uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tierlog.wire.schema import Request

RSS_GROWTH_MAX = 64 << 20
CROWD = 100_000
PARTITIONS_MAX = 500
NOW_MS = int(time.time() * 1000)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("node")
    with running(
        folder,
        *("--set", "auto.create.topics.enable=false"),
        *("--set", f"tierlog.partitions.max={PARTITIONS_MAX}"),
    ) as one:
        assert one.ask(create("t", partitions=2), 5).topics[0].error_code == 0
        made = one.ask(
            create("compacted", partitions=100, configs={"cleanup.policy": "compact"}), 5
        )
        assert made.topics[0].error_code == 0
        before = one.rss_bytes()
        yield one
        assert within(5, lambda: "\ntierlog_connections 0" in one.metrics())
        assert one.rss_bytes() - before < RSS_GROWTH_MAX
        assert "Traceback" not in one.log()
        assert "ERROR" not in one.log()


@pytest.fixture(autouse=True)
def served_neighbour(node: Running) -> Iterator[None]:
    with node.visit("127.0.0.1") as neighbour:
        neighbour.ask(metadata("t"), 9)
        yield
        began = time.monotonic()
        assert neighbour.ask(metadata("t"), 9).topics[0].error_code == 0
        assert time.monotonic() - began < 1


@pytest.fixture
def raw(node: Running) -> Iterator[Raw]:
    with node.visit() as one:
        yield one


def assert_hung_up_on(node: Running, raw: Raw, words: str) -> None:
    """With one line in the log that says why."""
    assert raw.is_ended()
    (line,) = node.said_of(raw)
    assert words in line


# Frames


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack(">i", 0), "a frame of 0 bytes"),
        (struct.pack(">i", -1), "a frame of -1 bytes"),
        (struct.pack(">i", -(2**31)), "a frame of -2147483648 bytes"),
        (struct.pack(">i", (100 << 20) + 1), "allowed are 1 to 104857600"),
        (struct.pack(">ihh", (8 << 20) + 1, ApiKey.METADATA, 9), "allowed are 1 to 8388608"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "this looks like TLS on a plain port"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS alert"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "this looks like HTTP"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "a frame of 1397966893 bytes"),
    ],
)
def test_who_does_not_speak_kafka_is_told_in_the_log_by_one_line(
    node: Running, raw: Raw, data: bytes, words: str
) -> None:
    raw.send(data)
    assert_hung_up_on(node, raw, words)


def request_frame(api: int, version: int, body: bytes, *, tags: bytes | None = None) -> bytes:
    """A request by hand; `tags` for flexible versions."""
    return struct.pack(">hhih", api, version, 1, -1) + (tags or b"") + body


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        pytest.param(b"\0\x12\0", "has no header", id="no-header"),
        pytest.param(request_frame(999, 0, b""), "API 999 v0 is not served", id="unknown-api"),
        pytest.param(request_frame(-1, 0, b""), "API -1 v0 is not served", id="negative-api"),
        pytest.param(request_frame(1, 99, b""), "FETCH v99 is not served", id="unknown-version"),
        pytest.param(request_frame(1, -1, b""), "FETCH v-1 is not served", id="negative-version"),
        pytest.param(
            request_frame(3, 4, struct.pack(">i", 2**31 - 1) + b"\0"), "left", id="long-array"
        ),
        pytest.param(request_frame(3, 4, struct.pack(">i", -2) + b"\0"), "-2", id="array-below-0"),
        pytest.param(
            request_frame(3, 4, struct.pack(">ih", 1, 999) + b"abc"), "METADATA v4", id="long-text"
        ),
        pytest.param(
            request_frame(3, 4, struct.pack(">ih", 1, 2) + b"\xff\xfe\0"), "UTF", id="not-text"
        ),
        pytest.param(
            request_frame(3, 4, struct.pack(">ih", 1, -1) + b"\0"), "null", id="null-name"
        ),
        pytest.param(
            request_frame(3, 4, struct.pack(">i", 0) + b"\0\0\0"), "2 bytes after", id="trailing"
        ),
        pytest.param(
            request_frame(3, 9, b"\xff" * 6, tags=b"\0"), "a varint longer than 5", id="varint"
        ),
        pytest.param(
            request_frame(3, 9, uvarint(1_000_001) + bytes(3_000_000), tags=b"\0"),
            "more elements and tags than one message may have",
            id="million",
        ),
        pytest.param(
            request_frame(3, 9, b"\1\0\0\0" + b"\2\5\1a\5\1b", tags=b"\0"), "tag 5", id="tag-twice"
        ),
        pytest.param(
            request_frame(3, 9, b"\1\0\0\0" + b"\1\5\x7fa", tags=b"\0"), "tag 5", id="long-tag"
        ),
        pytest.param(
            request_frame(3, 9, b"\1\0\0\0\0", tags=uvarint(100_000) + b"\1\0" * 100_000),
            "METADATA v9",
            id="header-tags",
        ),
    ],
)
def test_a_frame_that_is_no_request_ends_its_connection(
    node: Running, raw: Raw, frame: bytes, words: str
) -> None:
    raw.send_frame(frame)
    assert_hung_up_on(node, raw, words)


def test_tags_that_nobody_knows_are_stepped_over(raw: Raw) -> None:
    nested = b"\3" + b"".join(bytes((tag, 3)) + b"\1\7\0" for tag in (5, 6, 90))
    raw.send_frame(request_frame(3, 9, b"\1\0\0\0" + nested, tags=b"\1\x09\4abcd"))
    assert raw.reply()[:4] == struct.pack(">i", 1)


def test_apiversions_of_the_future_is_answered_in_v0(raw: Raw) -> None:
    raw.send_frame(request_frame(ApiKey.API_VERSIONS, 77, b"whatever"))
    code = struct.unpack_from(">ih", raw.reply())
    assert code == (1, ErrorCode.UNSUPPORTED_VERSION)


def test_a_second_mistake_from_the_same_address_is_not_written_down_again(
    node: Running, raw: Raw
) -> None:
    raw.send(bytes(4))
    assert_hung_up_on(node, raw, "a frame of 0 bytes")
    with node.visit(raw.host) as again:
        again.send(bytes(4))
        assert_hung_up_on(node, again, "a frame of 0 bytes")


def test_nobody_writes_lines_of_their_own_into_the_log(node: Running, raw: Raw) -> None:
    raw.send(framed(produce("x\n2026 CRITICAL all is lost\n" + "y" * 30_000, (0, b""), acks=0), 3))
    assert_hung_up_on(node, raw, "produce with acks=0")
    (line,) = node.said_of(raw)
    assert len(line) < 700
    assert not any(line.startswith("2026 CRITICAL") for line in node.log().splitlines())


# Crowds


def crowd_of_trims() -> Request:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=-1)] * CROWD
    topics = [DeleteRecordsTopic(name="t", partitions=partitions)]
    return DeleteRecordsRequest(topics=topics, timeout_ms=1000)


CROWDS: dict[str, tuple[Callable[[], Request], int]] = {
    "metadata": (lambda: metadata(*(f"m{number}" for number in range(CROWD))), 9),
    "fetch": (lambda: fetch("t", *((number, 0) for number in range(CROWD)), wait_ms=1000), 11),
    "list offsets": (lambda: list_offsets("t", *range(CROWD)), 6),
    "create": (lambda: create(*(f"c{number}" for number in range(CROWD))), 5),
    "delete": (
        lambda: DeleteTopicsRequest(topic_names=["t"] * CROWD, timeout_ms=1000, topics=[]),
        5,
    ),
    "trim": (crowd_of_trims, 2),
    "produce": (lambda: produce("t", *((number, None) for number in range(CROWD))), 9),
}


@pytest.mark.parametrize("kind", CROWDS)
def test_a_request_for_a_hundred_thousand_things_ends_its_connection(
    node: Running, raw: Raw, kind: str
) -> None:
    make, version = CROWDS[kind]
    raw.send(framed(make(), version))
    assert_hung_up_on(node, raw, "more than" if kind == "produce" else "more elements and tags")


@pytest.mark.parametrize("kind", ["metadata", "fetch", "list offsets", "produce"])
def test_a_request_for_ten_thousand_things_is_answered(
    raw: Raw, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "CROWD", 10_000)
    make, version = CROWDS[kind]
    raw.ask(make(), version)


def test_partitions_beyond_what_a_topic_or_the_node_may_have_are_refused(raw: Raw) -> None:
    for count, code in (
        (10**9, ErrorCode.INVALID_PARTITIONS),
        (0, ErrorCode.INVALID_PARTITIONS),
        (-7, ErrorCode.INVALID_PARTITIONS),
        (PARTITIONS_MAX, ErrorCode.POLICY_VIOLATION),
    ):
        (result,) = raw.ask(create("many", partitions=count), 5).topics
        assert result.error_code == code
        assert str(count) in result.error_message
    assert raw.ask(metadata("many"), 9).topics[0].error_code == 3


def test_settings_as_large_as_they_can_be_get_a_short_answer(raw: Raw) -> None:
    large = "z" * 32_000
    for version in (4, 5):
        for configs in ({large: large}, {"cleanup.policy": large}, {"retention.ms": "9" * 32_000}):
            (result,) = raw.ask(create("large", configs=configs), version).topics
            assert result.error_code == ErrorCode.INVALID_CONFIG
            assert 0 < len(result.error_message) < 1100


# Names


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../../etc", "a b", "é", "a\0b", "x" * 250, "a\n", "a" * 32_767]
)
def test_a_name_that_breaks_the_rules_makes_no_topic(raw: Raw, name: str) -> None:
    assert raw.ask(create(name), 5).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    code = raw.ask(metadata(name), 9).topics[0].error_code
    assert code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_what_comes_twice_in_one_request_is_refused(raw: Raw) -> None:
    (result,) = raw.ask(create("twice", "twice"), 5).topics
    assert result.error_code == ErrorCode.INVALID_REQUEST
    (topic,) = raw.ask(list_offsets("t", 0, 0), 6).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_fetch_that_repeats_itself_does_not_wait(raw: Raw) -> None:
    began = time.monotonic()
    end = end_of(raw)
    (topic,) = raw.ask(fetch("t", (0, end), (0, end), wait_ms=20_000), 11).responses
    assert [one.error_code for one in topic.partitions] == [0, 0]
    assert time.monotonic() - began < 10


def test_a_fetch_of_no_partition_of_no_topic_waits_for_its_time(raw: Raw) -> None:
    (topic,) = raw.ask(fetch("nowhere", wait_ms=1), 11).responses
    assert topic.partitions == []


def test_a_name_where_null_may_not_be_is_an_error_of_its_topic(raw: Raw) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
    assert raw.ask(request, 12).topics[0].error_code == ErrorCode.INVALID_REQUEST


# Offsets and epochs


def end_of(raw: Raw, topic: str = "t") -> int:
    (answer,) = raw.ask(list_offsets(topic, 0), 6).topics
    return int(answer.partitions[0].offset)


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1, 10**9])
def test_an_offset_that_cannot_be_is_out_of_range(raw: Raw, offset: int) -> None:
    (topic,) = raw.ask(fetch("t", (0, offset), wait_ms=20_000), 11).responses
    assert topic.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    if offset != -1:  # which stands for the high watermark
        asked = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[asked])], timeout_ms=1000
        )
        (trimmed,) = raw.ask(request, 2).topics
        assert trimmed.partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
def test_a_timestamp_without_a_meaning_is_refused(raw: Raw, timestamp: int) -> None:
    (topic,) = raw.ask(list_offsets("t", 0, timestamp=timestamp), 6).topics
    assert topic.partitions[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_leader_epoch_from_the_future_is_unknown(raw: Raw) -> None:
    (topic,) = raw.ask(fetch("t", (0, 0), current_leader_epoch=2**31 - 1), 11).responses
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("index", [-1, 2, 10**9, -(2**31)])
def test_a_partition_that_is_not_there_is_unknown(raw: Raw, index: int) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert raw.ask(fetch("t", (index, 0)), 11).responses[0].partitions[0].error_code == unknown
    assert raw.ask(list_offsets("t", index), 6).topics[0].partitions[0].error_code == unknown
    assert produced(raw, sound(), index=index) == unknown


# Batches


def sound(*values: bytes, timestamp: int = NOW_MS, codec: Codec = Codec.NONE) -> bytearray:
    records = [
        Record(offset=Offset(number), timestamp=TimestampMs(timestamp), key=b"k", value=value)
        for number, value in enumerate(values or (b"value",))
    ]
    return encode_batch(records, codec=codec)


def patched(layout: str, position: int, value: int, *, batch: bytearray | None = None) -> bytearray:
    """A batch with one field changed and its CRC right again."""
    made = sound() if batch is None else batch
    struct.pack_into(layout, made, position, value)
    struct.pack_into(">I", made, 17, crc_of(made))
    return made


def produced(
    raw: Raw, *batches: bytes | bytearray | None, topic: str = "t", index: int = 0, acks: int = 1
) -> int:
    asked = produce(topic, *((index, one) for one in batches), acks=acks)
    (answer,) = raw.ask(asked, 9).responses
    return int(answer.partition_responses[0].error_code)


def with_producer(**changes: int) -> bytearray:
    record = Record(offset=Offset(0), timestamp=TimestampMs(NOW_MS), key=b"k", value=b"v")
    made = encode_batch(
        [record],
        producer_id=ProducerId(7),
        producer_epoch=ProducerEpoch(0),
        base_sequence=0,
    )
    places = {"producer_id": (">q", 43), "producer_epoch": (">h", 51), "base_sequence": (">i", 53)}
    for name, value in changes.items():
        patched(*places[name], value, batch=made)
    return made


BATCHES: dict[str, tuple[bytes | bytearray | None, ErrorCode]] = {
    "too large": (sound(bytes(1_100_000)), ErrorCode.MESSAGE_TOO_LARGE),
    "magic 0": (patched(">b", 16, 0), ErrorCode.INVALID_RECORD),
    "magic 1": (patched(">b", 16, 1), ErrorCode.INVALID_RECORD),
    "magic 3": (patched(">b", 16, 3), ErrorCode.INVALID_RECORD),
    "bad checksum": (sound()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
    "count too high": (patched(">i", 57, 2), ErrorCode.INVALID_RECORD),
    "count 0": (patched(">i", 57, 0), ErrorCode.INVALID_RECORD),
    "count below 0": (patched(">i", 57, -1), ErrorCode.INVALID_RECORD),
    "count 2^31-1": (patched(">i", 57, 2**31 - 1), ErrorCode.INVALID_RECORD),
    "last offset": (patched(">i", 23, 5), ErrorCode.INVALID_RECORD),
    "unknown attribute": (patched(">h", 21, 0x80), ErrorCode.INVALID_RECORD),
    "unknown codec": (patched(">h", 21, 7), ErrorCode.INVALID_RECORD),
    "control": (patched(">h", 21, 0x20), ErrorCode.INVALID_RECORD),
    "negative sequence": (with_producer(base_sequence=-5), ErrorCode.INVALID_RECORD),
    "negative epoch": (with_producer(producer_epoch=-5), ErrorCode.INVALID_RECORD),
    "negative producer": (with_producer(producer_id=-5), ErrorCode.INVALID_RECORD),
    "the future": (sound(timestamp=NOW_MS + 86_400_000), ErrorCode.INVALID_TIMESTAMP),
    "no such time": (sound(timestamp=2**62), ErrorCode.INVALID_TIMESTAMP),
    "two batches": (sound() + sound(), ErrorCode.INVALID_RECORD),
    "cut short": (sound()[:-1], ErrorCode.CORRUPT_MESSAGE),
    "half a header": (sound()[:30], ErrorCode.CORRUPT_MESSAGE),
    "length below 0": (patched(">i", 8, -1), ErrorCode.CORRUPT_MESSAGE),
    "length 2^31-1": (patched(">i", 8, 2**31 - 1), ErrorCode.CORRUPT_MESSAGE),
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "null": (None, ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_a_bad_batch_is_refused_and_leaves_the_log_as_it_was(raw: Raw, kind: str) -> None:
    batch, code = BATCHES[kind]
    end = end_of(raw)
    assert produced(raw, batch) == code
    assert produced(raw, batch, acks=-1) == code
    assert end_of(raw) == end
    assert produced(raw, sound(), acks=-1) == 0
    assert end_of(raw) == end + 1


def test_acks_other_than_0_1_and_all_are_refused(raw: Raw) -> None:
    end = end_of(raw)
    for acks in (7, 2, -2, 32_767, -32_768):
        assert produced(raw, sound(), acks=acks) == ErrorCode.INVALID_REQUIRED_ACKS
    assert end_of(raw) == end


def test_a_mistake_with_acks_0_hangs_up(node: Running, raw: Raw) -> None:
    raw.send(framed(produce("t", (0, b"rubbish"), acks=0), 9))
    assert_hung_up_on(node, raw, "produce with acks=0 to 't'")


# Batches that are taken apart on arrival


BOMBS: dict[str, tuple[bytearray, ErrorCode]] = {
    "zstd": (sound(bytes(60_000_000), codec=Codec.ZSTD), ErrorCode.INVALID_RECORD),
    "gzip": (sound(bytes(60_000_000), codec=Codec.GZIP), ErrorCode.INVALID_RECORD),
    "lz4": (sound(bytes(60_000_000), codec=Codec.LZ4), ErrorCode.INVALID_RECORD),
    "many records": (sound(*[b""] * 20_001, codec=Codec.ZSTD), ErrorCode.MESSAGE_TOO_LARGE),
    # CVE-2023-34455: a length that nobody has checked.
    "snappy": (
        patched(
            ">I", 61, 0xFFFFFFFF,
            batch=patched(">h", 21, Codec.SNAPPY, batch=sound(bytes(100))),
        ),
        ErrorCode.INVALID_RECORD,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BOMBS)
def test_a_batch_that_unfolds_without_end_is_refused(node: Running, raw: Raw, kind: str) -> None:
    bomb, code = BOMBS[kind]
    end, before = end_of(raw, "compacted"), node.rss_bytes()
    assert produced(raw, bomb, topic="compacted") == code
    assert end_of(raw, "compacted") == end
    assert node.rss_bytes() - before < 32 << 20


@pytest.mark.slow
def test_a_crowd_of_batches_that_unfold_leaves_time_for_others(node: Running, raw: Raw) -> None:
    """Many in one request, and many requests in one piece: a neighbour is served in between."""
    slow = sound(*[b""] * 20_000, codec=Codec.ZSTD)
    at_once = framed(produce("compacted", *((index, slow) for index in range(100))), 9)
    singles = framed(produce("compacted", (0, slow)), 9) * 20
    with node.visit() as neighbour:
        neighbour.ask(ApiVersionsRequest(client_software_name="n", client_software_version="1"), 3)
        raw.send(at_once + singles)
        worst = 0.0
        for _ in range(10):
            began = time.monotonic()
            neighbour.ask(metadata("t"), 9)
            worst = max(worst, time.monotonic() - began)
    for _ in range(21):
        raw.reply()
    assert worst < 1


# Limits of a listener


@pytest.mark.slow
def test_connections_beyond_the_limits_are_refused(tmp_path: Path) -> None:
    limits = ("--set", "max.connections=4", "--set", "max.connections.per.ip=2")
    with running(tmp_path, *limits) as node, node.visit() as one, node.visit(one.host):
        with node.visit(one.host) as third_of_one:
            assert_hung_up_on(node, third_of_one, "max.connections.per.ip")
        with node.visit(), node.visit(), node.visit() as fifth:
            assert_hung_up_on(node, fifth, "as many as max.connections")
        one.ask(metadata(), 9)


@pytest.mark.slow
def test_half_requests_wait_for_room_in_the_nodes_budget_and_all_get_through(
    tmp_path: Path,
) -> None:
    """Each sends half a megabyte but one byte, and that later; a megabyte may be in flight."""
    mib = 1 << 20
    limits = {
        "socket.request.max.bytes": mib,
        "message.max.bytes": mib // 2 + 1000,
        "queued.max.request.bytes": mib,
    }
    options = (word for one, value in limits.items() for word in ("--set", f"{one}={value}"))
    frame = framed(produce("t", (0, sound(b"x" * (mib // 2))), acks=-1), 9)
    with running(tmp_path, *options) as node, ExitStack() as stack:
        assert node.ask(create("t"), 5).topics[0].error_code == 0
        crowd = [stack.enter_context(node.visit()) for _ in range(5)]
        for one in crowd:
            one.ask(metadata("t"), 9)

        def trickle(one: Raw) -> bytes:
            one.send(frame[:-1])
            time.sleep(1)
            one.send(frame[-1:])
            return one.reply()

        with ThreadPoolExecutor(len(crowd)) as threads:
            assert all(threads.map(trickle, crowd))
        assert end_of(crowd[0]) == len(crowd)
        (pauses,) = re.findall(r"^tierlog_read_pauses_total (\d+)", node.metrics(), re.MULTILINE)
        assert int(pauses) > 0, "it was read from less than they sent"
        assert within(5, lambda: "\ntierlog_in_flight_bytes 0" in node.metrics())


@pytest.mark.slow
def test_a_group_takes_no_more_members_than_it_may_have(tmp_path: Path) -> None:
    limits = ("--set", "group.max.size=1", "--set", "group.initial.rebalance.delay.ms=0")

    def join(one: Raw, metadata: bytes = b"") -> int:
        asked = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        for _ in range(100):
            code: int = one.ask(asked, 3).error_code
            if code not in (
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ):
                break
            time.sleep(0.1)
        return code

    with running(tmp_path, *limits) as node, node.visit() as one, node.visit() as other:
        one.ask(FindCoordinatorRequest(key="g"), 3)
        assert join(other, b"m" * ((1 << 20) + 1)) == ErrorCode.MESSAGE_TOO_LARGE
        assert join(one) == ErrorCode.NONE
        assert join(other) == ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.slow
def test_connections_that_say_nothing_more_are_closed(tmp_path: Path) -> None:
    limits = ("--set", "connections.max.idle.ms=100", "--set", "tierlog.handshake.timeout.ms=500")
    with running(tmp_path, *limits) as node:
        with node.visit() as silent, node.visit() as half, node.visit() as idle:
            half.send(framed(metadata(), 9)[:9])
            idle.ask(metadata(), 9)
            assert idle.is_ended()
            assert not node.said_of(idle)
            assert_hung_up_on(node, silent, "no request within 0.5 s")
            assert_hung_up_on(node, half, "no request within 0.5 s")
        assert within(5, lambda: "\ntierlog_connections 0" in node.metrics())
