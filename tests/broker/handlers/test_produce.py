"""Produce: what is written, what is refused, and when the answer comes."""

import asyncio
from typing import Any

import pytest

from tests.broker.support import Served, serving
from tests.hot.support import batch
from tierlog.broker.acknowledging import TIMEOUT_MS_MAX
from tierlog.broker.request import CloseConnection
from tierlog.config import NodeSettings
from tierlog.hot import Log
from tierlog.hot.errors import LogClosed
from tierlog.hot.waiters import Waiter
from tierlog.records.attributes import Codec
from tierlog.records.record import Record, decode_records, encode_batch
from tierlog.types import Bytes, Offset, ProducerEpoch, ProducerId, TimestampMs
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

NEWEST = 13


def request(served: Served, name: str, *batches: Bytes | None, acks: int = 1) -> ProduceRequest:
    """One batch for each partition from 0 on."""
    topic = served.node.topics.by_name.get(name)
    data = TopicProduceData(
        name=name,
        topic_id=topic.id if topic else b"\1" * 16,
        partition_data=[
            PartitionProduceData(index=index, records=each) for index, each in enumerate(batches)
        ],
    )
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])


def record_batch(
    *values: bytes | None,
    served: Served,
    key: bytes | None = b"k",
    codec: Codec = Codec.NONE,
    sequence: int | None = None,
) -> bytes:
    now = TimestampMs(served.node.now_ms())
    records = [Record(Offset(n), now, key, value) for n, value in enumerate(values)]
    if sequence is None:
        return bytes(encode_batch(records, codec=codec))
    return bytes(
        encode_batch(
            records,
            producer_id=ProducerId(7),
            producer_epoch=ProducerEpoch(0),
            base_sequence=sequence,
        )
    )


async def produce(
    served: Served, name: str, *batches: Bytes | None, acks: int = 1, version: int = NEWEST
) -> list[PartitionProduceResponse]:
    response: Any = await served.call(request(served, name, *batches, acks=acks), version)
    (topic,) = response.responses
    assert topic.name == name or version >= 13
    placed: list[PartitionProduceResponse] = topic.partition_responses
    return placed


def values(served: Served, name: str, partition: int = 0) -> list[bytes | None]:
    log = served.node.topics.named(name).partition(partition).log
    data = bytes(log.read(log.log_start, bytes_max=1 << 20, end=log.log_end))
    found: list[bytes | None] = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        found += [record.value for record in decode_records(data[:size])]
        data = data[size:]
    return found


@pytest.mark.parametrize("version", range(3, NEWEST + 1))
@pytest.mark.parametrize("acks", [1, -1])
async def test_every_version_writes_and_tells_the_offset(
    served: Served, version: int, acks: int
) -> None:
    await served.create("t", partitions=2)
    for offset in (0, 2):
        placed = await produce(
            served,
            "t",
            record_batch(b"a", b"b", served=served),
            record_batch(b"c", b"d", served=served),
            acks=acks,
            version=version,
        )
        assert [one.error_code for one in placed] == [0, 0]
        assert [one.base_offset for one in placed] == [offset, offset]
    assert values(served, "t", 1) == [b"c", b"d", b"c", b"d"]


async def test_acks_all_is_answered_only_when_durable(served: Served) -> None:
    topic = await served.create("t")
    (placed,) = await produce(served, "t", record_batch(b"v", served=served), acks=-1)
    assert placed.error_code == 0
    assert topic.partition(0).log.durable_end == 1


async def test_acks_0_gets_no_answer(served: Served) -> None:
    await served.create("t")
    assert served.send(request(served, "t", record_batch(b"v", served=served), acks=0), 9) is None
    assert values(served, "t") == [b"v"]


async def test_acks_0_with_an_error_hangs_up(served: Served) -> None:
    with pytest.raises(CloseConnection, match="nowhere"):
        served.send(request(served, "nowhere", record_batch(b"v", served=served), acks=0), 9)


@pytest.mark.parametrize(
    ("version", "code"),
    [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)],
)
async def test_an_unknown_topic_is_told_by_the_code_of_its_version(
    served: Served, version: int, code: ErrorCode
) -> None:
    (placed,) = await produce(served, "t", record_batch(b"v", served=served), version=version)
    assert placed.error_code == code
    assert placed.base_offset == -1


async def test_one_bad_partition_does_not_spoil_the_others(served: Served) -> None:
    await served.create("t", partitions=2)
    good = record_batch(b"v", served=served)
    bad = bytearray(good)
    bad[-1] ^= 1
    placed = await produce(served, "t", bad, good, None)
    assert [one.error_code for one in placed] == [
        ErrorCode.CORRUPT_MESSAGE,
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert placed[0].error_message


async def test_no_records_and_no_bytes_are_invalid(served: Served) -> None:
    await served.create("t", partitions=2)
    placed = await produce(served, "t", None, b"")
    assert [one.error_code for one in placed] == [ErrorCode.INVALID_RECORD] * 2


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_acks_are_refused(served: Served, acks: int) -> None:
    await served.create("t")
    (placed,) = await produce(served, "t", record_batch(b"v", served=served), acks=acks)
    assert placed.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert values(served, "t") == []


async def test_a_batch_beyond_max_message_bytes_is_too_large(served: Served) -> None:
    await served.create("t", max_message_bytes="200")
    (placed,) = await produce(served, "t", record_batch(b"v" * 200, served=served))
    assert placed.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_batch_sent_again_is_answered_with_its_first_offset(served: Served) -> None:
    await served.create("t")
    first = record_batch(b"a", served=served, sequence=0)
    for _ in range(3):
        (placed,) = await produce(served, "t", first)
        assert (placed.error_code, placed.base_offset) == (0, 0)
    assert values(served, "t") == [b"a"]


async def test_a_duplicate_is_answered_only_when_its_first_copy_is_durable() -> None:
    async with serving() as served:
        topic = await served.create("t")
        first = record_batch(b"a", served=served, sequence=0)
        assert isinstance(served.send(request(served, "t", first), 9), list)
        assert topic.partition(0).log.durable_end == 0
        again = served.send(request(served, "t", first), 9)
        assert isinstance(again, asyncio.Future)
        assert not again.done()
        await again
        assert topic.partition(0).log.durable_end == 1


async def test_a_gap_in_the_sequence_is_out_of_order(served: Served) -> None:
    await served.create("t")
    await produce(served, "t", record_batch(b"a", served=served, sequence=0))
    (placed,) = await produce(served, "t", record_batch(b"c", served=served, sequence=2))
    assert placed.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_zstd_needs_a_version_that_knows_it(served: Served) -> None:
    await served.create("t")
    packed = record_batch(b"v" * 100, served=served, codec=Codec.ZSTD)
    (placed,) = await produce(served, "t", packed, version=6)
    assert placed.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    (placed,) = await produce(served, "t", packed, version=7)
    assert placed.error_code == 0


async def test_a_compacted_topic_names_the_records_without_a_key(served: Served) -> None:
    await served.create("t", cleanup_policy="compact")
    (placed,) = await produce(served, "t", record_batch(b"a", b"b", served=served, key=None))
    assert placed.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in placed.record_errors] == [0, 1]
    assert all(one.batch_index_error_message for one in placed.record_errors)


async def test_more_in_sync_replicas_than_there_are_refuse_acks_all(served: Served) -> None:
    await served.create("t", min_insync_replicas="2")
    (placed,) = await produce(served, "t", record_batch(b"v", served=served), acks=-1)
    assert placed.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    (placed,) = await produce(served, "t", record_batch(b"v", served=served), acks=1)
    assert placed.error_code == 0


async def test_transactions_are_refused_until_there_are_any(served: Served) -> None:
    await served.create("t")
    asked = request(served, "t", record_batch(b"v", served=served), acks=-1)
    asked.transactional_id = "tx"
    response = await served.call(asked, 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TXN_STATE


async def test_a_timestamp_far_in_the_future_is_refused(served: Served) -> None:
    await served.create("t", message_timestamp_after_max_ms="1000")
    late = batch(b"v", timestamp=served.node.now_ms() + 2000)
    (placed,) = await produce(served, "t", late)
    assert placed.error_code == ErrorCode.INVALID_TIMESTAMP


async def test_a_timestamp_far_in_the_past_is_refused(served: Served) -> None:
    topic = await served.create("t", message_timestamp_before_max_ms="1000")
    now_ms = served.node.now_ms()
    (placed,) = await produce(served, "t", batch(b"v", timestamp=now_ms - 2000))
    assert placed.error_code == ErrorCode.INVALID_TIMESTAMP
    (placed,) = await produce(served, "t", batch(b"v", timestamp=now_ms - 500))
    assert placed.error_code == ErrorCode.NONE
    assert topic.partition(0).log.log_end == 1, "of the two only the one in time"


async def test_a_bound_before_1970_refuses_no_timestamp(served: Served) -> None:
    for name, bound in (("t", str(2**63 - 1)), ("u", str(served.node.now_ms() + 1))):
        await served.create(name, message_timestamp_before_max_ms=bound)
        (placed,) = await produce(served, name, batch(b"v", timestamp=0))
        assert placed.error_code == ErrorCode.NONE


async def test_log_append_time_asks_for_no_timestamp_of_the_producers(served: Served) -> None:
    await served.create(
        "t", message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1000"
    )
    (placed,) = await produce(served, "t", batch(b"v", timestamp=1))
    assert placed.error_code == ErrorCode.NONE


async def test_acks_0_is_slowed_down_by_a_disk_that_fills_up(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.create("t")
    asked = request(served, "t", record_batch(b"v", served=served), acks=0)
    assert served.send(asked, NEWEST) is None
    monkeypatch.setattr(served.node.space, "throttle_ms", 20)
    loop, before = asyncio.get_running_loop(), served.node.stats.throttled_ms
    began = loop.time()
    answer = served.send(asked, NEWEST)
    assert isinstance(answer, asyncio.Future), "it takes a place among the replies"
    assert await answer is None, "and says nothing"
    assert loop.time() - began >= 0.019
    assert served.node.stats.throttled_ms == before + 20


async def test_log_append_time_is_told_to_the_producer(served: Served) -> None:
    await served.create("t", message_timestamp_type="LogAppendTime")
    (placed,) = await produce(served, "t", batch(b"v", timestamp=1))
    assert placed.log_append_time_ms == served.node.now_ms()


async def test_a_full_disk_refuses_producers_and_lets_them_in_again() -> None:
    async with serving(NodeSettings(tierlog_disk_free_min_ratio=0.0)) as served:
        await served.create("t")
        served.disk.capacity = served.disk.used + (1 << 20)
        served.node.space.look()
        (placed,) = await produce(served, "t", record_batch(b"v", served=served))
        assert placed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "free" in (placed.error_message or "")
        served.disk.capacity = 1 << 40
        served.node.space.look()
        (placed,) = await produce(served, "t", record_batch(b"v", served=served))
        assert placed.error_code == 0


async def test_an_answer_that_is_not_durable_in_time_says_so(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.create("t")
    asked = request(served, "t", record_batch(b"v", served=served), acks=-1)
    asked.timeout_ms = 1
    monkeypatch.setattr(served.node.directory.syncs, "request", lambda _: None)
    response = await served.call(asked, 9)
    code = response.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.REQUEST_TIMED_OUT
    monkeypatch.undo()


# The short road: requests that begin like an earlier one


@pytest.mark.parametrize("version", range(3, NEWEST + 1))
@pytest.mark.parametrize("acks", [1, -1])
async def test_requests_that_begin_alike_are_answered_alike(
    served: Served, version: int, acks: int
) -> None:
    await served.create("t")
    for number in range(4):
        made = record_batch(b"%d" % number, b"x" * 40 * number, served=served)
        (placed,) = await produce(served, "t", made, acks=acks, version=version)
        assert (placed.error_code, placed.base_offset) == (0, 2 * number)
    assert (served.peer.openings is not None) == (version >= 7)
    assert len(values(served, "t")) == 8


async def test_a_bad_batch_on_the_short_road_is_refused(served: Served) -> None:
    await served.create("t")
    good = record_batch(b"v", served=served)
    await produce(served, "t", good)
    (placed,) = await produce(served, "t", good[:-1] + b"!")
    assert placed.error_code == ErrorCode.CORRUPT_MESSAGE
    assert placed.error_message
    (placed,) = await produce(served, "t", good)
    assert (placed.error_code, placed.base_offset) == (0, 1)


async def test_duplicates_and_gaps_are_seen_on_the_short_road(served: Served) -> None:
    await served.create("t")
    for sequence in (0, 1, 1, 0):
        (placed,) = await produce(
            served, "t", record_batch(b"a", served=served, sequence=sequence), acks=-1
        )
        assert (placed.error_code, placed.base_offset) == (0, sequence)
    (placed,) = await produce(served, "t", record_batch(b"a", served=served, sequence=5), acks=-1)
    assert placed.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert values(served, "t") == [b"a", b"a"]


@pytest.mark.parametrize("version", [12, 13])
async def test_a_topic_made_again_gets_its_own_records_only(served: Served, version: int) -> None:
    topic = await served.create("t")
    asked = request(served, "t", record_batch(b"old", served=served))
    await served.call(asked, version)
    await served.call(asked, version)
    await served.node.controller.delete(topic)
    await served.create("t")
    response = await served.call(asked, version)
    code = response.responses[0].partition_responses[0].error_code
    assert code == (0 if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID)
    assert values(served, "t") == ([b"old"] if version < 13 else [])


async def test_settings_changed_meanwhile_count_on_the_short_road(served: Served) -> None:
    topic = await served.create("t")
    made = record_batch(b"v" * 100, served=served)
    for _ in range(2):
        (placed,) = await produce(served, "t", made, acks=-1)
        assert placed.error_code == 0
    await served.node.controller.replace_configs(topic, {"min.insync.replicas": "2"})
    (placed,) = await produce(served, "t", made, acks=-1)
    assert placed.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    await served.node.controller.replace_configs(topic, {"max.message.bytes": "50"})
    (placed,) = await produce(served, "t", made, acks=-1)
    assert placed.error_code == ErrorCode.MESSAGE_TOO_LARGE


async def test_a_full_disk_is_felt_on_the_short_road() -> None:
    async with serving(NodeSettings(tierlog_disk_free_min_ratio=0.0)) as served:
        await served.create("t")
        made = record_batch(b"v", served=served)
        await produce(served, "t", made)
        served.disk.capacity = served.disk.used + (1 << 20)
        served.node.space.look()
        (placed,) = await produce(served, "t", made)
        assert placed.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        served.disk.capacity = 1 << 40


# Each partition by itself


class Held:
    """Who waits at a log that the test makes durable, or not."""

    def __init__(self) -> None:
        self.waiters: list[Waiter] = []

    def set_result(self, result: None) -> None:
        for one in self.waiters:
            one.set_result(result)

    def set_exception(self, fault: Exception) -> None:
        for one in self.waiters:
            one.set_exception(fault)

    def is_over(self) -> bool:
        """Nobody waits there any more."""
        return bool(self.waiters) and all(one.done() for one in self.waiters)


def held(served: Served, monkeypatch: pytest.MonkeyPatch, path: str) -> Held:
    """What the log at `path` makes durable stays with the test."""
    here = Held()
    plain = Log.tell_visible

    def tell(log: Log, end: Offset, waiter: Waiter) -> None:
        if log.path == path:
            here.waiters.append(waiter)
        else:
            plain(log, end, waiter)

    monkeypatch.setattr(Log, "tell_visible", tell)
    return here


async def alike(served: Served, timeout_ms: int) -> ProduceRequest:
    """A request that takes the short road: one like it was answered before."""
    asked = request(served, "t", record_batch(b"v", served=served), acks=-1)
    asked.timeout_ms = timeout_ms
    response = await served.call(asked, NEWEST)
    assert response.responses[0].partition_responses[0].error_code == 0
    return asked


async def test_a_batch_on_the_short_road_that_is_late_is_told(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t")
    asked = await alike(served, timeout_ms=100)
    wait = held(served, monkeypatch, topic.partition(0).log.path)
    (placed,) = (await served.call(asked, NEWEST)).responses[0].partition_responses
    assert (placed.error_code, placed.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert "100 ms" in (placed.error_message or "")
    assert wait.is_over()


async def test_a_log_that_fails_is_told_on_the_short_road(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t")
    asked = await alike(served, timeout_ms=60_000)
    for fault, code in (
        (None, 0),
        (LogClosed("closed"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        with monkeypatch.context() as patched:
            wait = held(served, patched, topic.partition(0).log.path)
            answer = served.send(asked, NEWEST)
            assert isinstance(answer, asyncio.Future)
            if fault is None:
                wait.set_result(None)
            else:
                wait.set_exception(fault)
            _, response = served.decoded(asked, NEWEST, await answer or [])
        (placed,) = response.responses[0].partition_responses
        assert placed.error_code == code
    with monkeypatch.context() as patched:
        wait = held(served, patched, topic.partition(0).log.path)
        answer = served.send(asked, NEWEST)
        assert isinstance(answer, asyncio.Future)
        wait.set_exception(ZeroDivisionError("a bug"))
        with pytest.raises(ZeroDivisionError):
            await answer


async def test_a_throttle_that_began_meanwhile_is_told_on_the_short_road(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t")
    asked = await alike(served, timeout_ms=60_000)
    wait = held(served, monkeypatch, topic.partition(0).log.path)
    answer = served.send(asked, NEWEST)
    assert isinstance(answer, asyncio.Future)
    monkeypatch.setattr(served.node.space, "throttle_ms", 77)
    wait.set_result(None)
    _, response = served.decoded(asked, NEWEST, await answer or [])
    (placed,) = response.responses[0].partition_responses
    assert (response.throttle_time_ms, placed.error_code, placed.base_offset) == (77, 0, 1)


async def test_a_late_partition_does_not_fail_the_others(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t", partitions=3)
    held(served, monkeypatch, topic.partition(1).log.path)
    one = record_batch(b"v", served=served)
    asked = request(served, "t", one, one, one, acks=-1)
    asked.timeout_ms = 100
    response = await served.call(asked, NEWEST)
    codes = [each.error_code for each in response.responses[0].partition_responses]
    assert codes == [0, ErrorCode.REQUEST_TIMED_OUT, 0]


async def test_a_failed_partition_does_not_fail_the_others(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t", partitions=2)
    future = held(served, monkeypatch, topic.partition(0).log.path)
    one = record_batch(b"v", served=served)
    asked = request(served, "t", one, one, acks=-1)
    answer = served.send(asked, NEWEST)
    assert isinstance(answer, asyncio.Future)
    future.set_exception(LogClosed("closed"))
    _, response = served.decoded(asked, NEWEST, await answer or [])
    first, second = response.responses[0].partition_responses
    assert first.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (second.error_code, second.base_offset) == (0, 0)


@pytest.mark.parametrize("is_alike", [False, True])
async def test_nothing_is_kept_for_a_peer_that_went_away(
    served: Served, monkeypatch: pytest.MonkeyPatch, is_alike: bool
) -> None:
    topic = await served.create("t")
    timers: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()
    plain = loop.call_later

    def noting(delay: float, *args: Any, **named: Any) -> asyncio.TimerHandle:
        timers.append(plain(delay, *args, **named))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", noting)
    if is_alike:
        await alike(served, timeout_ms=2**31 - 1)
    wait = held(served, monkeypatch, topic.partition(0).log.path)
    asked = request(served, "t", record_batch(b"v", served=served), acks=-1)
    asked.timeout_ms = 2**31 - 1
    answer = served.send(asked, NEWEST)
    assert isinstance(answer, asyncio.Future)
    *earlier, timer = timers
    assert all(one.cancelled() for one in earlier)
    assert timer.when() - loop.time() <= TIMEOUT_MS_MAX / 1000
    answer.cancel()
    await asyncio.sleep(0)
    assert timer.cancelled()
    assert wait.is_over()
