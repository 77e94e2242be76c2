"""Fetch: which bytes, how many, when, and to whom not."""

import asyncio
from random import Random
from typing import Any

import pytest

from tests.broker.support import Served, serving
from tests.hot.support import FixedClock, batch
from tierlog.hot import Log
from tierlog.hot.names import segment_path
from tierlog.records.batch import patch_offset, validate_stored
from tierlog.records.record import decode_records
from tierlog.sim.power import DataFate
from tierlog.types import Bytes, LeaderEpoch, Offset
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

VERSIONS = range(4, 19)
NEWEST = VERSIONS[-1]


def ask(partition: int = 0, offset: int = 0, *, bytes_max: int = 1 << 20, epoch: int = -1) -> Any:
    return FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=bytes_max,
        current_leader_epoch=epoch,
    )


def request(
    served: Served,
    name: str,
    *asks: FetchPartition,
    min_bytes: int = 1,
    wait_ms: int = 0,
    bytes_max: int = 1 << 20,
) -> FetchRequest:
    topic = served.node.topics.by_name.get(name)
    asked = FetchTopic(
        topic=name, topic_id=topic.id if topic else b"\1" * 16, partitions=list(asks)
    )
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=bytes_max, topics=[asked]
    )


async def fetch(
    served: Served, name: str, *asks: FetchPartition, version: int = NEWEST, **limits: int
) -> list[PartitionData]:
    response: Any = await served.call(request(served, name, *asks, **limits), version)
    (topic,) = response.responses
    found: list[PartitionData] = topic.partitions
    return found


def offsets(records: Bytes | None) -> list[int]:
    data = bytes(records or b"")
    found: list[int] = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        assert len(data) >= size, "a batch is cut"
        found += [record.offset for record in decode_records(data[:size])]
        data = data[size:]
    return found


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_reads_what_was_written(served: Served, version: int) -> None:
    await served.create("t", partitions=2)
    await served.fill("t", 3, partition=0)
    await served.fill("t", 1, partition=1)
    first, second = await fetch(served, "t", ask(0, 1), ask(1), version=version)
    assert (first.error_code, offsets(first.records)) == (0, [1, 2])
    assert (second.error_code, offsets(second.records)) == (0, [0])
    assert (first.high_watermark, second.high_watermark) == (3, 1)


async def test_an_offset_inside_a_batch_brings_the_whole_batch(served: Served) -> None:
    topic = await served.create("t")
    now = served.node.now_ms()
    topic.partition(0).append(memoryview(batch(b"a", b"b", b"c", timestamp=now)), now)
    await topic.partition(0).log.settle()
    (found,) = await fetch(served, "t", ask(0, 1))
    assert offsets(found.records) == [0, 1, 2]


async def test_the_first_batch_comes_whole_however_small_the_limits(served: Served) -> None:
    await served.create("t", partitions=2)
    await served.fill("t", 2, partition=0)
    await served.fill("t", 2, partition=1)
    for limits in ({"bytes_max": 1}, {"bytes_max": 0}):
        first, second = await fetch(served, "t", ask(0), ask(1), **limits)
        assert offsets(first.records) == [0]
        assert offsets(second.records) == []
    first, second = await fetch(served, "t", ask(0, bytes_max=1), ask(1, bytes_max=1))
    assert (offsets(first.records), offsets(second.records)) == ([0], [])


async def test_an_empty_partition_leaves_the_first_batch_to_the_next(served: Served) -> None:
    await served.create("t", partitions=2)
    await served.fill("t", 2, partition=1)
    first, second = await fetch(served, "t", ask(0), ask(1), bytes_max=1)
    assert (offsets(first.records), offsets(second.records)) == ([], [0])


async def test_the_order_of_the_request_decides_who_gets_the_bytes(served: Served) -> None:
    await served.create("t", partitions=2)
    for index in (0, 1):
        await served.fill("t", 4, partition=index)
    size = len(batch(b"value")) * 4
    first, second = await fetch(served, "t", ask(1), ask(0), bytes_max=size)
    assert (first.partition_index, offsets(first.records)) == (1, [0, 1, 2, 3])
    assert (second.partition_index, offsets(second.records)) == (0, [])


@pytest.mark.parametrize("offset", [-1, 4, 2**62])
async def test_offsets_outside_the_log_are_out_of_range(served: Served, offset: int) -> None:
    await served.create("t")
    await served.fill("t", 3)
    (found,) = await fetch(served, "t", ask(0, offset))
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (found.log_start_offset, found.high_watermark) == (0, 3)


async def test_below_the_log_start_is_out_of_range(served: Served) -> None:
    topic = await served.create("t")
    await served.fill("t", 3)
    topic.partition(0).log.trim(Offset(2))
    (found,) = await fetch(served, "t", ask(0, 1))
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert found.log_start_offset == 2


async def test_what_is_not_durable_is_not_shown(served: Served) -> None:
    topic = await served.create("t")
    now = served.node.now_ms()
    topic.partition(0).append(memoryview(batch(b"a", timestamp=now)), now)
    (found,) = await fetch(served, "t", ask(0))
    assert (found.error_code, offsets(found.records), found.high_watermark) == (0, [], 0)


@pytest.mark.parametrize(
    ("version", "code"),
    [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)],
)
async def test_an_unknown_topic_is_told_by_the_code_of_its_version(
    served: Served, version: int, code: ErrorCode
) -> None:
    (found,) = await fetch(served, "t", ask(0), version=version)
    assert found.error_code == code


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, 0), (1, 0), (0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_the_leader_epoch_of_the_client_is_checked(
    served: Served, epoch: int, code: int
) -> None:
    topic = await served.create("t")
    topic.partition(0).leader_epoch = LeaderEpoch(1)
    (found,) = await fetch(served, "t", ask(0, epoch=epoch))
    assert found.error_code == code


async def test_a_reader_beyond_the_end_of_its_epoch_is_told_where_it_ended(served: Served) -> None:
    topic = await served.create("t")
    await served.fill("t", 3)
    topic.partition(0).leader_epoch = LeaderEpoch(5)
    await served.fill("t", 2)
    asked = ask(0, 4)
    asked.last_fetched_epoch = 0
    (found,) = await fetch(served, "t", asked)
    assert found.diverging_epoch is not None
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 3)


async def test_sessions_are_declined_and_unknown_ones_refused(served: Served) -> None:
    await served.create("t")
    asked = request(served, "t", ask(0))
    asked.session_epoch = 0
    response = await served.call(asked, NEWEST)
    assert (response.error_code, response.session_id) == (0, 0)
    asked.session_id, asked.session_epoch = 77, 3
    response = await served.call(asked, NEWEST)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", [14, 15])
async def test_followers_are_turned_away(served: Served, version: int) -> None:
    await served.create("t")
    asked = request(served, "t", ask(0))
    if version < 15:
        asked.replica_id = 3
    else:
        asked.replica_state = ReplicaState(replica_id=3)
    response = await served.call(asked, version)
    code = response.responses[0].partitions[0].error_code
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_read_committed_has_an_empty_list_of_aborted_transactions(served: Served) -> None:
    await served.create("t")
    await served.fill("t", 1)
    asked = request(served, "t", ask(0))
    response = await served.call(asked, NEWEST)
    assert not response.responses[0].partitions[0].aborted_transactions
    asked.isolation_level = 1
    response = await served.call(asked, NEWEST)
    found = response.responses[0].partitions[0]
    assert found.aborted_transactions == []
    assert found.last_stable_offset == 1


@pytest.mark.parametrize("offset", [0, 1, 2])
async def test_between_high_watermark_and_log_end_a_fetch_waits(
    served: Served, offset: int
) -> None:
    topic = await served.create("t")
    now = served.node.now_ms()
    topic.partition(0).append(memoryview(batch(b"a", b"b", timestamp=now)), now)
    (found,) = await fetch(served, "t", ask(0, offset))
    assert (found.error_code, offsets(found.records), found.high_watermark) == (0, [], 0)
    asked = request(served, "t", ask(0, offset), wait_ms=60_000)
    answer = await waiting(served, asked)
    await topic.partition(0).log.settle()
    if offset == 2:
        await served.fill("t", 1)
    _, response = served.decoded(asked, NEWEST, await answer)
    (found,) = response.responses[0].partitions
    assert found.error_code == 0
    assert offsets(found.records) == ([2] if offset == 2 else [0, 1])


# Enough

SIZE = len(batch(b"value"))


async def at_once(served: Served, asked: FetchRequest) -> list[list[int]]:
    """The offsets of each partition, of an answer that does not wait."""
    answer = served.send(asked, NEWEST)
    assert isinstance(answer, list), "it waits"
    _, response = served.decoded(asked, NEWEST, answer)
    return [offsets(one.records) for topic in response.responses for one in topic.partitions]


@pytest.mark.parametrize("limit", [2 * SIZE, 3 * SIZE - 1, 2 * SIZE + 1])
@pytest.mark.parametrize("others", [0, 1])
async def test_min_bytes_at_the_limit_of_the_partition_does_not_wait(
    served: Served, limit: int, others: int
) -> None:
    """Whole batches need not fill the limit: what counts is what lies there."""
    await served.create("t", partitions=2)
    await served.fill("t", 5)
    asks = [ask(0, bytes_max=limit), ask(1)][: 1 + others]
    asked = request(served, "t", *asks, min_bytes=limit, wait_ms=60_000)
    assert (await at_once(served, asked))[0] == [0, 1]


@pytest.mark.parametrize("others", [0, 1])
async def test_min_bytes_above_the_limit_of_the_answer_does_not_wait(
    served: Served, others: int
) -> None:
    await served.create("t", partitions=2)
    await served.fill("t", 5)
    limits = {"min_bytes": 1 << 30, "bytes_max": 2 * SIZE + 1, "wait_ms": 60_000}
    asked = request(served, "t", *[ask(0), ask(1)][: 1 + others], **limits)
    assert (await at_once(served, asked))[0] == [0, 1]


async def test_a_partition_at_its_limit_has_nothing_to_wait_for(served: Served) -> None:
    await served.create("t")
    await served.fill("t", 5)
    asked = request(served, "t", ask(0, bytes_max=SIZE), min_bytes=4 * SIZE, wait_ms=60_000)
    assert await at_once(served, asked) == [[0]]


async def test_partitions_below_their_limit_are_waited_for(served: Served) -> None:
    await served.create("t", partitions=2)
    await served.fill("t", 5)
    asks = (ask(0, bytes_max=2 * SIZE + 1), ask(1))
    asked = request(served, "t", *asks, min_bytes=3 * SIZE + 1, wait_ms=60_000)
    answer = await waiting(served, asked)
    await served.fill("t", 1, partition=1)
    _, response = served.decoded(asked, NEWEST, await answer)
    assert [offsets(one.records) for one in response.responses[0].partitions] == [[0, 1], [0]]


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("others", [0, 1])
async def test_the_end_of_a_sealed_segment_does_not_wait(
    served: Served, behind: int, others: int
) -> None:
    """What comes later lies in the next segment, and a read ends with its segment."""
    topic = await served.create("t", partitions=2)
    await served.fill("t", 2)
    topic.partition(0).log.roll()
    await served.fill("t", behind)
    asks = [ask(0, 1), ask(1)][: 1 + others]
    asked = request(served, "t", *asks, min_bytes=1 << 19, wait_ms=60_000)
    assert (await at_once(served, asked))[0] == [1]
    answer = await waiting(
        served, request(served, "t", ask(0, 2), min_bytes=1 << 19, wait_ms=60_000)
    )
    answer.cancel()


async def test_a_segment_sealed_meanwhile_ends_the_wait(served: Served) -> None:
    topic = await served.create("t")
    await served.fill("t", 1)
    asked = request(served, "t", ask(0), min_bytes=1 << 19, wait_ms=60_000)
    answer = await waiting(served, asked)
    topic.partition(0).log.roll()
    await served.fill("t", 1)
    _, response = served.decoded(asked, NEWEST, await answer)
    assert offsets(response.responses[0].partitions[0].records) == [0]


async def test_waiting_looks_only_at_partitions_that_changed(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t", partitions=20)
    for index in range(20):
        await served.fill("t", 1, partition=index)
    asks = [ask(index) for index in range(20)]
    asked = request(served, "t", *asks, min_bytes=22 * SIZE, wait_ms=60_000)
    answer = await waiting(served, asked)
    looked: list[str] = []
    for name in ("view", "measure"):
        plain = getattr(Log, name)

        def noting(log: Log, *args: Any, plain: Any = plain, **named: Any) -> Any:
            looked.append(log.path)
            return plain(log, *args, **named)

        monkeypatch.setattr(Log, name, noting)
    await served.fill("t", 1, partition=7)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not answer.done()
    assert set(looked) == {topic.partition(7).log.path}
    await served.fill("t", 1, partition=3)
    _, response = served.decoded(asked, NEWEST, await answer)
    found = [len(offsets(one.records)) for one in response.responses[0].partitions]
    assert found == [2 if index in (3, 7) else 1 for index in range(20)]


async def test_slow_reads_leave_partitions_to_the_next_fetch(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.create("t", partitions=4)
    for index in range(4):
        await served.fill("t", 1, partition=index)
    clock = served.node.env.clock
    assert isinstance(clock, FixedClock)
    view = Log.view

    def slow(log: Log, *args: Any, **named: Any) -> Any:
        clock.ms += 20
        return view(log, *args, **named)

    monkeypatch.setattr(Log, "view", slow)
    found = await fetch(served, "t", *[ask(index) for index in range(4)])
    assert [offsets(one.records) for one in found] == [[0], [0], [], []]
    assert {one.error_code for one in found} == {0}


# Waiting


async def waiting(served: Served, asked: FetchRequest) -> "asyncio.Future[Any]":
    answer = served.send(asked, NEWEST)
    assert isinstance(answer, asyncio.Future)
    assert not answer.done()
    return answer


async def test_a_fetch_waits_for_the_first_record(served: Served) -> None:
    await served.create("t", partitions=2)
    asked = request(served, "t", ask(0), ask(1), wait_ms=60_000)
    answer = await waiting(served, asked)
    await served.fill("t", 1, partition=1)
    _, response = served.decoded(asked, NEWEST, await answer)
    assert [offsets(one.records) for one in response.responses[0].partitions] == [[], [0]]


async def test_a_fetch_waits_until_min_bytes_are_there(served: Served) -> None:
    await served.create("t")
    size = len(batch(b"value"))
    asked = request(served, "t", ask(0), wait_ms=60_000, min_bytes=2 * size)
    answer = await waiting(served, asked)
    await served.fill("t", 1)
    await asyncio.sleep(0)
    assert not answer.done()
    await served.fill("t", 1)
    _, response = served.decoded(asked, NEWEST, await answer)
    assert offsets(response.responses[0].partitions[0].records) == [0, 1]


async def test_a_fetch_gives_what_there_is_when_its_time_is_up(served: Served) -> None:
    await served.create("t")
    await served.fill("t", 1)
    asked = request(served, "t", ask(0), wait_ms=1, min_bytes=1 << 20)
    answer = await waiting(served, asked)
    _, response = served.decoded(asked, NEWEST, await answer)
    assert offsets(response.responses[0].partitions[0].records) == [0]


async def test_an_error_does_not_wait(served: Served) -> None:
    await served.create("t")
    (found,) = await fetch(served, "t", ask(5), wait_ms=60_000)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_deleted_meanwhile_ends_the_wait(served: Served) -> None:
    topic = await served.create("t")
    asked = request(served, "t", ask(0), wait_ms=60_000)
    answer = await waiting(served, asked)
    await served.node.controller.delete(topic)
    _, response = served.decoded(asked, NEWEST, await answer)
    assert response.responses[0].partitions[0].error_code in (
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )


async def test_a_peer_that_went_away_is_not_waited_for(served: Served) -> None:
    topic = await served.create("t")
    answer = await waiting(served, request(served, "t", ask(0), wait_ms=60_000))
    answer.cancel()
    await asyncio.sleep(0)
    assert not topic.partition(0).log._watchers.watching
    await served.fill("t", 1)


async def test_min_bytes_zero_does_not_wait(served: Served) -> None:
    await served.create("t")
    (found,) = await fetch(served, "t", ask(0), min_bytes=0, wait_ms=60_000)
    assert found.error_code == 0


async def test_a_reader_gets_past_offsets_that_a_recovery_left_unused() -> None:
    """A tail was torn; its offsets may have been told to somebody and are not given out again."""
    async with serving() as before:
        topic = await before.create("t")
        await before.fill("t", 2)
        disk = before.disk.after_power_cut(Random(1), data=DataFate.KEPT)
        path = segment_path(topic.partition(0).log.path, Offset(0), "log")
    torn = batch(b"x", b"y")
    patch_offset(torn, Offset(2), LeaderEpoch(0))
    file = disk.open(path, write=True)
    file.pwrite(torn[:-1], file.size())
    file.close()
    async with serving(disk=disk) as served:
        (answer,) = await fetch(served, "t", ask(offset=2))
        header = validate_stored(answer.records or b"")
        assert answer.high_watermark == 4
        assert (header.base_offset, header.next_offset, header.record_count) == (2, 4, 0)
        await served.fill("t", 1)
        (answer,) = await fetch(served, "t", ask(offset=2))
        assert offsets(answer.records) == [4]
