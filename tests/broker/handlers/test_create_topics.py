"""CreateTopics on the wire."""

from typing import Any

import pytest

from tests.broker.support import Served, serving
from tierlog.config import ConfigSource, NodeSettings
from tierlog.metastore import MetaStoreBroken, MetaStoreFull, MetaStoreUnavailable, TxnUncertain
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tierlog.wire.schema import NO_UUID

VERSIONS = range(2, 8)


def topic(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: list[tuple[int, list[int]]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in assignments or []
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def request(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


async def result(served: Served, asked: CreatableTopic, version: int = 7) -> Any:
    response = await served.call(request(asked), version)
    assert [one.name for one in response.topics] == [asked.name]
    return response.topics[0]


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_makes_a_topic(served: Served, version: int) -> None:
    found = await result(served, topic("t", 3, 1), version)
    made = served.node.topics.named("t")
    assert (found.error_code, found.error_message) == (0, None)
    assert len(made.partitions) == 3
    if version >= 5:
        assert (found.num_partitions, found.replication_factor) == (3, 1)
    if version >= 7:
        assert found.topic_id == made.id != NO_UUID


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_refuses_a_topic_that_exists(served: Served, version: int) -> None:
    await served.create("t")
    found = await result(served, topic("t"), version)
    assert found.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert "already" in found.error_message


async def test_pitfall_24_minus_one_takes_the_defaults_of_the_node() -> None:
    async with serving(NodeSettings(num_partitions=4)) as served:
        found = await result(served, topic("t", -1, -1))
        assert (found.error_code, found.num_partitions, found.replication_factor) == (0, 4, 1)
        assert len(served.node.topics.named("t").partitions) == 4


@pytest.mark.parametrize("version", VERSIONS)
async def test_pitfall_24_validate_only_makes_nothing(served: Served, version: int) -> None:
    response = await served.call(request(topic("t", 3), validate_only=True), version)
    assert response.topics[0].error_code == 0
    assert response.topics[0].topic_id == NO_UUID
    assert not served.node.topics.by_name


async def test_validate_only_finds_what_is_wrong(served: Served) -> None:
    response = await served.call(request(topic("t", 0), validate_only=True), 7)
    assert response.topics[0].error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("version", [5, 6, 7])
async def test_pitfall_7_configs_are_a_list_and_never_null(served: Served, version: int) -> None:
    assert (await result(served, topic("t"), version)).configs != []
    assert (await result(served, topic("t"), version)).configs == []


async def test_pitfall_5_a_topic_made_again_has_another_id(served: Served) -> None:
    first = (await result(served, topic("t"))).topic_id
    await served.node.controller.delete(served.node.topics.named("t"))
    assert (await result(served, topic("t"))).topic_id not in (first, NO_UUID)


async def test_pitfall_5_topic_ids_outlive_a_restart() -> None:
    async with serving() as served:
        first = (await result(served, topic("t"))).topic_id
    async with serving(disk=served.disk) as served:
        assert served.node.topics.named("t").id == first


async def test_the_answer_tells_the_settings_of_the_topic_and_their_sources(
    served: Served,
) -> None:
    found = await result(served, topic("t", configs={"retention.ms": "1000"}))
    by_name = {one.name: one for one in found.configs}
    own, other = by_name["retention.ms"], by_name["segment.bytes"]
    assert (own.value, own.config_source) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert (other.value, other.config_source) == ("134217728", ConfigSource.DEFAULT)
    assert served.node.topics.named("t").config.retention_ms == 1000


async def test_a_manual_assignment_says_how_many_partitions_there_are(served: Served) -> None:
    found = await result(served, topic("t", -1, -1, assignments=[(1, [1]), (0, [1])]))
    assert (found.error_code, found.num_partitions) == (0, 2)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (topic("t", 2, -1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic("t", -1, 1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic("t", -1, -1, assignments=[(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, assignments=[(-1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, assignments=[(0, [2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, assignments=[(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, assignments=[(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, assignments=[(0, [1])] * 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("t", 10_001), ErrorCode.INVALID_PARTITIONS),
        (topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("käse"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("t" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("t", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (topic("t", configs={"retention.mss": "1"}), ErrorCode.INVALID_CONFIG),
    ],
)
async def test_a_wish_that_cannot_be_is_refused_with_a_sentence(
    served: Served, asked: CreatableTopic, code: ErrorCode
) -> None:
    found = await result(served, asked)
    assert found.error_code == code
    assert found.error_message
    assert found.configs == []
    assert not served.node.topics.by_name


async def test_a_setting_that_comes_twice_is_refused(served: Served) -> None:
    asked = topic("t")
    asked.configs = [CreatableTopicConfig(name="retention.ms", value=str(n)) for n in range(2)]
    assert (await result(served, asked)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_name_that_comes_twice_is_refused_once_and_the_others_are_made(
    served: Served,
) -> None:
    response = await served.call(request(topic("a"), topic("b"), topic("a", 2)), 7)
    codes = {one.name: one.error_code for one in response.topics}
    assert len(response.topics) == 2
    assert codes == {"a": ErrorCode.INVALID_REQUEST, "b": 0}
    assert list(served.node.topics.by_name) == ["b"]


async def test_names_that_metrics_cannot_tell_apart_are_refused(served: Served) -> None:
    response = await served.call(request(topic("a.b"), topic("a_b")), 7)
    assert [one.error_code for one in response.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]


async def test_a_change_that_takes_too_long_is_answered_in_time_and_may_still_happen(
    served: Served,
) -> None:
    served.metastore.hold()
    asked = request(topic("a"), topic("b", 0))
    asked.timeout_ms = 1
    response = await served.call(asked, 7)
    assert [one.error_code for one in response.topics] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_PARTITIONS,
    ]
    served.metastore.release()
    assert (await result(served, topic("a"))).error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (MetaStoreFull("no room"), ErrorCode.KAFKA_STORAGE_ERROR),
        (MetaStoreBroken("fsync failed"), ErrorCode.KAFKA_STORAGE_ERROR),
        (MetaStoreUnavailable("away"), ErrorCode.NOT_CONTROLLER),
        (TxnUncertain("no answer"), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_trouble_with_the_metastore_is_retriable(
    served: Served, fault: Exception, code: ErrorCode
) -> None:
    served.metastore.fault = fault
    found = await result(served, topic("t"))
    assert found.error_code == code
    assert code.retriable
    assert found.error_message == str(fault)
    served.metastore.fault = None
    assert (await result(served, topic("t"))).error_code == 0
