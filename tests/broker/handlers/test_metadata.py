"""Metadata: who leads what, and where to find it."""

import asyncio
from typing import Any

import pytest

from tests.broker.support import Served, serving
from tierlog.broker.handlers import metadata
from tierlog.config import NodeSettings
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tierlog.wire.schema import NO_UUID

VERSIONS = range(14)
NEWEST = VERSIONS[-1]


def asked(*names: str, create: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_describes_a_topic(served: Served, version: int) -> None:
    topic = await served.create("t", partitions=3)
    response: Any = await served.call(asked("t"), version)
    (found,) = response.topics
    assert (found.error_code, found.name) == (0, "t")
    assert [one.partition_index for one in found.partitions] == [0, 1, 2]
    assert {one.leader_id for one in found.partitions} == {1}
    assert found.topic_id == (topic.id if version >= 10 else NO_UUID)
    assert topic.id != NO_UUID


@pytest.mark.parametrize("version", VERSIONS)
async def test_all_topics_are_null_and_in_version_0_empty(served: Served, version: int) -> None:
    await served.create("a")
    await served.create("b")
    everything = MetadataRequest(topics=None if version else [])
    response = await served.call(everything, version)
    assert [one.name for one in response.topics] == ["a", "b"]


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_an_empty_list_is_no_topics(served: Served, version: int) -> None:
    await served.create("a")
    response = await served.call(MetadataRequest(topics=[]), version)
    assert response.topics == []
    assert [one.node_id for one in response.brokers] == [1]


async def test_the_address_is_the_one_that_the_client_used(served: Served) -> None:
    response = await served.call(asked(), NEWEST)
    assert [(one.host, one.port) for one in response.brokers] == [("10.0.0.1", 9092)]


async def test_the_address_is_the_advertised_one_if_there_is_one() -> None:
    async with serving(NodeSettings(advertise="log.example:1234")) as served:
        response = await served.call(asked(), NEWEST)
    assert [(one.host, one.port) for one in response.brokers] == [("log.example", 1234)]


async def test_the_cluster_id_and_topic_ids_outlive_the_node() -> None:
    async with serving() as served:
        topic = await served.create("t")
        before = await served.call(asked("t"), NEWEST)
    async with serving(disk=served.disk) as again:
        after = await again.call(asked("t"), NEWEST)
    assert before.cluster_id == after.cluster_id
    assert len(before.cluster_id) == 22
    assert after.topics[0].topic_id == topic.id


async def test_every_start_takes_the_next_leader_epoch() -> None:
    disk = None
    for epoch in range(3):
        async with serving(disk=disk) as served:
            if disk is None:
                await served.create("t")
            response = await served.call(asked("t"), NEWEST)
            assert response.topics[0].partitions[0].leader_epoch == epoch
        disk = served.disk


async def test_an_unknown_topic_is_created_when_that_is_allowed() -> None:
    async with serving(NodeSettings(num_partitions=4)) as served:
        response = await served.call(asked("new"), NEWEST)
        assert (response.topics[0].error_code, len(response.topics[0].partitions)) == (0, 4)


@pytest.mark.parametrize(("node", "client"), [(False, True), (True, False)])
async def test_node_and_client_may_both_forbid_creation(node: bool, client: bool) -> None:
    async with serving(NodeSettings(auto_create_topics_enable=node)) as served:
        response = await served.call(asked("new", create=client), NEWEST)
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert response.topics[0].name == "new"
        assert not served.node.topics.by_name


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("name", ["", ".", "a/b", "x" * 250, "ä"])
async def test_a_name_that_cannot_be_is_invalid(served: Served, name: str, create: bool) -> None:
    response = await served.call(asked(name, create=create), NEWEST)
    assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_topic_is_found_by_its_id(served: Served) -> None:
    topic = await served.create("t")
    wanted = [
        MetadataRequestTopic(topic_id=topic.id, name=None),
        MetadataRequestTopic(topic_id=b"\7" * 16, name=None),
    ]
    response = await served.call(MetadataRequest(topics=wanted), 12)
    known, unknown = response.topics
    assert (known.error_code, known.name) == (0, "t")
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    assert unknown.topic_id == b"\7" * 16


async def test_authorized_operations_are_not_known(served: Served) -> None:
    await served.create("t")
    request = asked("t")
    request.include_topic_authorized_operations = True
    response = await served.call(request, 10)
    assert response.topics[0].topic_authorized_operations == -2147483648
    assert response.cluster_authorized_operations == -2147483648


async def test_a_topic_named_often_is_described_once(served: Served) -> None:
    topic = await served.create("t")
    by_id = MetadataRequestTopic(topic_id=topic.id, name=None)
    request = asked("t", "x", "t", "x", create=False)
    assert request.topics is not None
    request.topics += [by_id, by_id]
    response = await served.call(request, NEWEST)
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("t", 0),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0),
    ]


async def test_others_have_their_turn_while_a_large_topic_is_described(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "PARTITIONS_A_TURN", 10)
    await served.create("t", partitions=35)
    answer = served.send(asked("t"), NEWEST)
    assert isinstance(answer, asyncio.Future)
    turns = 0
    while not answer.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 4
    response = await served.call(asked("t"), NEWEST)
    assert [one.partition_index for one in response.topics[0].partitions] == list(range(35))


async def test_creation_is_not_waited_for_for_ever(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "CREATING_MS_MAX", 0)
    await served.create("t")
    served.metastore.hold()
    response = await served.call(asked("new", "t", "newer"), NEWEST)
    assert [one.error_code for one in response.topics] == [
        ErrorCode.LEADER_NOT_AVAILABLE,
        0,
        ErrorCode.LEADER_NOT_AVAILABLE,
    ]
    served.metastore.release()
