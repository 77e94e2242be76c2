"""DescribeTopicPartitions on the wire."""

from typing import Any

import pytest

from tests.broker.support import Served
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tierlog.wire.schema import NO_UUID


def request(
    *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def rows(response: Any) -> list[tuple[str, list[int]]]:
    return [
        (topic.name, [one.partition_index for one in topic.partitions]) for topic in response.topics
    ]


def place(response: Any) -> tuple[str, int] | None:
    cursor = response.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def test_an_empty_list_asks_for_every_topic_by_name(served: Served) -> None:
    await served.create("b")
    topic = await served.create("a", partitions=2)
    response = await served.call(request(), 0)
    assert rows(response) == [("a", [0, 1]), ("b", [0])]
    assert place(response) is None
    first = response.topics[0]
    assert (first.error_code, first.topic_id, first.is_internal) == (0, topic.id, False)
    partition = first.partitions[0]
    assert (partition.error_code, partition.leader_id) == (0, 1)
    assert partition.leader_epoch == topic.partition(0).leader_epoch
    assert (partition.replica_nodes, partition.isr_nodes) == ([1], [1])


async def test_pitfall_7_lists_of_eligible_leader_replicas_are_empty_and_never_null(
    served: Served,
) -> None:
    await served.create("t")
    (partition,) = (await served.call(request("t"), 0)).topics[0].partitions
    assert partition.eligible_leader_replicas == []
    assert partition.last_known_elr == []
    assert partition.offline_replicas == []


async def test_topics_asked_for_come_sorted_and_once(served: Served) -> None:
    for name in ("c", "a", "b"):
        await served.create(name)
    assert rows(await served.call(request("c", "a", "c"), 0)) == [("a", [0]), ("c", [0])]


async def test_pitfall_25_a_topic_that_is_not_there_is_listed_with_an_error(
    served: Served,
) -> None:
    await served.create("t")
    response = await served.call(request("x", "t", "a/b", ""), 0)
    assert [(one.name, one.error_code, one.topic_id == NO_UUID) for one in response.topics] == [
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, True),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, True),
        ("t", 0, False),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
    ]


async def test_internal_topics_are_told_as_such(served: Served) -> None:
    await served.create("__consumer_offsets")
    assert (await served.call(request(), 0)).topics[0].is_internal


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
async def test_pages_together_tell_everything_once(served: Served, limit: int) -> None:
    for name, count in (("a", 3), ("b", 1), ("c", 2)):
        await served.create(name, partitions=count)
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    for _ in range(10):
        response = await served.call(request(limit=limit, cursor=cursor), 0)
        page = [(name, index) for name, some in rows(response) for index in some]
        assert len(page) <= limit
        seen += page
        if (cursor := place(response)) is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


async def test_a_page_that_ends_with_its_topic_goes_on_with_the_next_one(served: Served) -> None:
    await served.create("a", partitions=2)
    await served.create("b")
    assert place(await served.call(request(limit=2), 0)) == ("b", 0)
    assert place(await served.call(request(limit=3), 0)) is None


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_below_one_is_one(served: Served, limit: int) -> None:
    await served.create("t", partitions=2)
    response = await served.call(request("t", limit=limit), 0)
    assert (rows(response), place(response)) == ([("t", [0])], ("t", 1))


async def test_the_cursor_of_a_topic_deleted_meanwhile_goes_on_behind_it(served: Served) -> None:
    await served.create("a")
    await served.create("c")
    assert rows(await served.call(request(cursor=("b", 5)), 0)) == [("c", [0])]


async def test_a_cursor_beyond_the_partitions_of_its_topic_finds_none_of_them(
    served: Served,
) -> None:
    await served.create("a")
    await served.create("b")
    response = await served.call(request(cursor=("a", 9)), 0)
    assert rows(response) == [("a", []), ("b", [0])]


async def test_a_cursor_with_a_negative_partition_is_refused(served: Served) -> None:
    await served.create("t")
    response = await served.call(request("t", cursor=("t", -1)), 0)
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("t", ErrorCode.INVALID_REQUEST)
    ]
