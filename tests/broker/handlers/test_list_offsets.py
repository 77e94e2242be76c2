"""ListOffsets: ends, beginnings and moments."""

import asyncio
from typing import Any

import pytest

from tests.broker.support import Served
from tests.hot.support import batch
from tierlog.broker.searching import AT_ONCE_MAX
from tierlog.hot import bytime
from tierlog.records.attributes import Codec
from tierlog.records.batch import patch_max_timestamp
from tierlog.types import LeaderEpoch, Offset
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

VERSIONS = range(1, 12)
NEWEST = VERSIONS[-1]
T0 = 1_700_000_000_000


def asked(*timestamps: int, name: str = "t", epoch: int = -1) -> ListOffsetsRequest:
    """Each for the partition of its place."""
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=index, timestamp=each, current_leader_epoch=epoch
                    )
                    for index, each in enumerate(timestamps)
                ],
            )
        ],
    )


async def look_up(served: Served, timestamp: int, version: int = NEWEST) -> Any:
    response = await served.call(asked(timestamp), version)
    return response.topics[0].partitions[0]


async def written(served: Served) -> None:
    """Offsets 0-2 at T0, T0+1, T0+2 in one batch; 3 at T0+10; 4 at T0+5."""
    topic = await served.create("t")
    partition = topic.partition(0)
    now = served.node.now_ms()
    for made in (
        batch(b"a", b"b", b"c", timestamp=T0),
        batch(b"d", timestamp=T0 + 10),
        batch(b"e", timestamp=T0 + 5),
    ):
        partition.append(memoryview(made), now)
    await partition.log.settle()


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_tells_the_ends(served: Served, version: int) -> None:
    await written(served)
    latest, earliest = (await look_up(served, -1, version)), (await look_up(served, -2, version))
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 5, -1)
    assert (earliest.error_code, earliest.offset) == (0, 0)


@pytest.mark.parametrize(
    ("timestamp", "offset", "found_at"),
    [
        (0, 0, T0),
        (T0, 0, T0),
        (T0 + 1, 1, T0 + 1),
        (T0 + 2, 2, T0 + 2),
        (T0 + 3, 3, T0 + 10),
        (T0 + 10, 3, T0 + 10),
        (T0 + 11, -1, -1),
    ],
)
async def test_a_time_finds_its_first_record(
    served: Served, timestamp: int, offset: int, found_at: int
) -> None:
    await written(served)
    found = await look_up(served, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, offset, found_at)


async def test_the_largest_timestamp_names_its_record(served: Served) -> None:
    await written(served)
    found = await look_up(served, -3)
    assert (found.error_code, found.offset, found.timestamp) == (0, 3, T0 + 10)


async def test_without_a_tier_the_local_log_is_all_there_is(served: Served) -> None:
    await written(served)
    served.node.topics.named("t").partition(0).log.trim(Offset(2))
    assert (await look_up(served, -2)).offset == 2
    assert (await look_up(served, -4)).offset == 2
    assert (await look_up(served, -5)).offset == -1
    assert (await look_up(served, -6)).offset == -1


@pytest.mark.parametrize(("timestamp", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
async def test_a_number_without_a_meaning_in_its_version_is_refused(
    served: Served, timestamp: int, first: int
) -> None:
    await written(served)
    for version in VERSIONS:
        found = await look_up(served, timestamp, version)
        expected = 0 if version >= first else ErrorCode.UNSUPPORTED_VERSION
        assert found.error_code == expected, version


async def test_an_empty_partition_has_no_times(served: Served) -> None:
    await served.create("t")
    assert (await look_up(served, -1)).offset == 0
    assert (await look_up(served, -3)).offset == -1
    assert (await look_up(served, T0)).offset == -1


async def test_unknown_partitions_epochs_and_doubles_are_told_apart(served: Served) -> None:
    await served.create("t")
    response = await served.call(asked(-1, -1), NEWEST)
    assert [one.error_code for one in response.topics[0].partitions] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    response = await served.call(asked(-1, epoch=9), NEWEST)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    twice = asked(-1)
    twice.topics[0].partitions *= 2
    response = await served.call(twice, NEWEST)
    assert [one.error_code for one in response.topics[0].partitions] == [
        ErrorCode.INVALID_REQUEST
    ] * 2


async def test_the_leader_epoch_of_the_record_is_told(served: Served) -> None:
    topic = await served.create("t")
    await served.fill("t", 2)
    topic.partition(0).leader_epoch = LeaderEpoch(4)
    await served.fill("t", 1)
    assert (await look_up(served, -2)).leader_epoch == 0
    assert (await look_up(served, -1)).leader_epoch == 4


# Questions that take long


def lying(served: Served, *, says: int) -> None:
    """A record at T0 in a batch whose header promises a later one."""
    made = batch(b"v", timestamp=T0)
    patch_max_timestamp(made, timestamp_ms=says)
    served.node.topics.named("t").partition(0).append(memoryview(made), served.node.now_ms())


async def turns_of(answer: Any) -> int:
    assert isinstance(answer, asyncio.Future)
    turns = 0
    while not answer.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


async def test_only_questions_about_time_are_answered_later(served: Served) -> None:
    await written(served)
    for timestamp in (-1, -2, -4, -5, -6):
        assert isinstance(served.send(asked(timestamp), NEWEST), list)
    for timestamp in (0, -3):
        assert await turns_of(served.send(asked(timestamp), NEWEST)) > 0


async def test_others_have_their_turn_between_batches_that_lie(served: Served) -> None:
    topic = await served.create("t")
    for _ in range(30):
        lying(served, says=T0 + 5)
    topic.partition(0).append(memoryview(batch(b"v", timestamp=T0 + 3)), served.node.now_ms())
    await topic.partition(0).log.settle()
    assert await turns_of(served.send(asked(T0 + 2), NEWEST)) >= 30
    found = await look_up(served, T0 + 2)
    assert (found.offset, found.timestamp) == (30, T0 + 3)


async def test_others_have_their_turn_on_a_long_way_through_headers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytime, "HEADERS_A_STEP", 3)
    topic = await served.create("t")
    lying(served, says=T0 + 5)
    await served.fill("t", 60)
    assert served.node.now_ms() == T0
    assert await turns_of(served.send(asked(T0 + 2), NEWEST)) >= 20
    assert (await look_up(served, T0 + 2)).offset == -1
    topic.partition(0).log.trim(Offset(1))
    assert await turns_of(served.send(asked(-3), NEWEST)) >= 20
    assert (await look_up(served, -3)).offset == 1


@pytest.mark.parametrize("timestamp", [T0 + 2, -3])
async def test_a_compressed_batch_is_looked_through_in_a_thread_once_it_is_asked_for(
    served: Served, monkeypatch: pytest.MonkeyPatch, timestamp: int
) -> None:
    topic = await served.create("t")
    made = batch(b"a", b"b", b"c", timestamp=T0, codec=Codec.GZIP)
    topic.partition(0).append(memoryview(made), served.node.now_ms())
    await topic.partition(0).log.settle()
    asked_in_threads: list[str] = []
    tasks = served.node.env.tasks
    plain = tasks.in_thread

    def noting(call: Any, *args: object) -> Any:
        asked_in_threads.append(call.__qualname__)
        return plain(call, *args)

    monkeypatch.setattr(tasks, "in_thread", noting)
    for _ in range(3):
        found = await look_up(served, timestamp)
        assert (found.error_code, found.offset, found.timestamp) == (0, 2, T0 + 2)
    # Which record is the latest of a batch is remembered.
    assert asked_in_threads == ["Question.answer"] * (1 if timestamp == -3 else 3)


async def test_threads_are_left_to_the_disk_also_when_peers_go_away(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t")
    made = batch(b"a", b"b", timestamp=T0, codec=Codec.GZIP)
    topic.partition(0).append(memoryview(made), served.node.now_ms())
    await topic.partition(0).log.settle()
    busy: list[asyncio.Future[Any]] = []

    def held(call: Any, *args: object) -> "asyncio.Future[Any]":
        busy.append(asyncio.get_running_loop().create_future())
        return busy[-1]

    with monkeypatch.context() as patched:
        patched.setattr(served.node.env.tasks, "in_thread", held)
        answers: list[Any] = [served.send(asked(T0), NEWEST) for _ in range(6)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(busy) == AT_ONCE_MAX
        for answer in answers[:4]:
            answer.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(busy) == AT_ONCE_MAX
        for one in tuple(busy):
            one.set_result((0, T0))
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(busy) == 4
        for one in busy[AT_ONCE_MAX:]:
            one.set_result((0, T0))
        await asyncio.gather(*answers[4:])


async def test_a_topic_deleted_during_a_search_is_told(served: Served) -> None:
    topic = await served.create("t")
    for _ in range(30):
        lying(served, says=T0 + 5)
    await topic.partition(0).log.settle()
    answer = served.send(asked(T0 + 2), NEWEST)
    assert isinstance(answer, asyncio.Future)
    await asyncio.sleep(0)
    topic.partition(0).log.close_now()
    _, response = served.decoded(asked(0), NEWEST, await answer or [])
    code = response.topics[0].partitions[0].error_code
    assert code == ErrorCode.NOT_LEADER_OR_FOLLOWER
