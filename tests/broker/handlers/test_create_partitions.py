"""CreatePartitions on the wire."""

import asyncio
from typing import Any

import pytest

from tests.broker.support import Served, serving
from tierlog.metastore import values
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)

VERSIONS = range(4)


def more(name: str, count: int, *replicas: list[int] | None) -> CreatePartitionsTopic:
    """Without replicas the node chooses; a single None is an assignment of nothing."""
    wanted = [CreatePartitionsAssignment(broker_ids=ids) for ids in replicas if ids is not None]
    return CreatePartitionsTopic(name=name, count=count, assignments=wanted if replicas else None)


def request(
    *topics: CreatePartitionsTopic, validate_only: bool = False, timeout_ms: int = 10_000
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )


async def result(served: Served, asked: CreatePartitionsTopic, version: int = 3) -> Any:
    response = await served.call(request(asked), version)
    assert [one.name for one in response.results] == [asked.name]
    return response.results[0]


def count(served: Served, name: str = "t") -> int:
    return len(served.node.topics.named(name).partitions)


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_raises_the_number_of_partitions(served: Served, version: int) -> None:
    await served.create("t", partitions=2)
    found = await result(served, more("t", 5), version)
    assert (found.error_code, found.error_message) == (0, None)
    assert count(served) == 5
    await served.fill("t", 1, partition=4)


@pytest.mark.parametrize("version", VERSIONS)
async def test_pitfall_24_every_topic_of_the_request_is_echoed(
    served: Served, version: int
) -> None:
    await served.create("a")
    await served.create("b")
    response = await served.call(request(more("b", 2), more("x", 2), more("a", 1)), version)
    assert [(one.name, one.error_code) for one in response.results] == [
        ("b", 0),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a", ErrorCode.INVALID_PARTITIONS),
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_validate_only_adds_nothing(served: Served, version: int) -> None:
    await served.create("t")
    response = await served.call(request(more("t", 2), validate_only=True), version)
    assert response.results[0].error_code == 0
    assert count(served) == 1


async def test_an_assignment_for_each_new_partition_is_taken(served: Served) -> None:
    await served.create("t")
    assert (await result(served, more("t", 3, [1], [1]))).error_code == 0
    assert count(served) == 3


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (more("t", 2), ErrorCode.INVALID_PARTITIONS),
        (more("t", 1), ErrorCode.INVALID_PARTITIONS),
        (more("t", 0), ErrorCode.INVALID_PARTITIONS),
        (more("t", -1), ErrorCode.INVALID_PARTITIONS),
        (more("t", 10_001), ErrorCode.INVALID_PARTITIONS),
        (more("t", 4, [1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, None), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("t", 3, [1, 2]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more("", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_a_wish_that_cannot_be_is_refused_with_a_sentence(
    served: Served, asked: CreatePartitionsTopic, code: ErrorCode
) -> None:
    await served.create("t", partitions=2)
    found = await result(served, asked)
    assert found.error_code == code
    assert found.error_message
    assert count(served) == 2


async def test_a_topic_that_comes_twice_is_refused(served: Served) -> None:
    await served.create("t")
    response = await served.call(request(more("t", 2), more("t", 3)), 3)
    assert [one.error_code for one in response.results] == [ErrorCode.INVALID_REQUEST]
    assert count(served) == 1


async def test_what_takes_too_long_is_answered_in_time_and_happens_later(served: Served) -> None:
    await served.create("t")
    served.metastore.hold()
    response = await served.call(request(more("t", 2), timeout_ms=1), 3)
    assert response.results[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    served.metastore.release()
    # Whoever comes next meets the change that nobody waits for, and goes on from there.
    assert (await result(served, more("t", 3))).error_code == 0
    assert count(served) == 3


async def test_of_two_that_ask_for_the_same_number_one_is_refused(served: Served) -> None:
    await served.create("t")
    found = await asyncio.gather(*(result(served, more("t", 2)) for _ in range(2)))
    assert sorted(one.error_code for one in found) == [0, ErrorCode.INVALID_PARTITIONS]
    assert count(served) == 2


async def test_a_topic_deleted_while_it_grows_leaves_nothing_behind() -> None:
    async with serving() as served:
        topic = await served.create("t")
        served.metastore.hold()
        adding = asyncio.ensure_future(result(served, more("t", 3)))
        await served.metastore.reached()
        deleting = asyncio.ensure_future(served.node.controller.delete(topic))
        await served.metastore.reached()
        served.metastore.release()
        await asyncio.gather(adding, deleting)
        await served.node.catalogue.deleted()
        assert not served.node.topics.by_name
        for prefix in (values.TOPICS, values.TOPIC_NAMES, values.PARTITIONS, values.DELETED):
            assert (await served.metastore.list(prefix))[0] == [], prefix
        assert served.node.directory.names() == []
