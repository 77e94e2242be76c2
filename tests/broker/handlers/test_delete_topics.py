"""DeleteTopics on the wire."""

from typing import Any

import pytest

from tests.broker.support import Served, serving
from tierlog.broker.errors import Contended
from tierlog.config import NodeSettings
from tierlog.metastore import MetaStoreUnavailable
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tierlog.wire.schema import NO_UUID

VERSIONS = range(1, 7)


def by_name(*names: str | None, version: int = 6, timeout_ms: int = 10_000) -> DeleteTopicsRequest:
    if version < 6:
        given = [name for name in names if name is not None]
        return DeleteTopicsRequest(topic_names=given, timeout_ms=timeout_ms)
    states = [DeleteTopicState(name=name, topic_id=NO_UUID) for name in names]
    return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)


def by_id(*ids: bytes) -> DeleteTopicsRequest:
    states = [DeleteTopicState(name=None, topic_id=one) for one in ids]
    return DeleteTopicsRequest(topics=states, timeout_ms=10_000)


async def result(served: Served, asked: DeleteTopicsRequest, version: int = 6) -> Any:
    response = await served.call(asked, version)
    assert len(response.responses) == 1
    return response.responses[0]


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_deletes_by_name(served: Served, version: int) -> None:
    topic = await served.create("t", partitions=2)
    found = await result(served, by_name("t", version=version), version)
    assert (found.name, found.error_code) == ("t", 0)
    if version >= 6:
        assert found.topic_id == topic.id
    assert not served.node.topics.by_name
    assert not served.node.topics.by_id


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_refuses_a_topic_that_is_not_there(
    served: Served, version: int
) -> None:
    found = await result(served, by_name("t", version=version), version)
    assert (found.name, found.error_code) == ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if version >= 5:
        assert "no topic 't'" in found.error_message


async def test_by_id_the_answer_names_the_topic(served: Served) -> None:
    topic = await served.create("t")
    found = await result(served, by_id(topic.id))
    assert (found.name, found.topic_id, found.error_code) == ("t", topic.id, 0)
    assert not served.node.topics.by_name


async def test_pitfall_5_the_id_of_a_topic_deleted_and_made_again_is_unknown(
    served: Served,
) -> None:
    old = await served.create("t")
    await result(served, by_name("t"))
    new = await served.create("t")
    found = await result(served, by_id(old.id))
    assert (found.name, found.topic_id) == (None, old.id)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert served.node.topics.named("t") is new


async def test_name_and_id_at_once_or_neither_is_a_contradiction(served: Served) -> None:
    topic = await served.create("t")
    both = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="t", topic_id=topic.id)], timeout_ms=1000
    )
    for asked in (both, by_name(None)):
        found = await result(served, asked)
        assert found.error_code == ErrorCode.INVALID_REQUEST
        assert found.error_message
    assert "t" in served.node.topics.by_name


async def test_a_topic_named_twice_is_refused_and_stays(served: Served) -> None:
    await served.create("t")
    await served.create("u")
    response = await served.call(by_name("t", "t", "u"), 6)
    codes = {one.name: one.error_code for one in response.responses}
    assert codes == {"t": ErrorCode.INVALID_REQUEST, "u": 0}
    assert list(served.node.topics.by_name) == ["t"]


async def test_a_topic_named_once_by_name_and_once_by_id_is_refused_and_stays(
    served: Served,
) -> None:
    topic = await served.create("t")
    states = [
        DeleteTopicState(name="t", topic_id=NO_UUID),
        DeleteTopicState(name=None, topic_id=topic.id),
    ]
    response = await served.call(DeleteTopicsRequest(topics=states, timeout_ms=1000), 6)
    assert [one.error_code for one in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert "t" in served.node.topics.by_name


@pytest.mark.parametrize("version", VERSIONS)
async def test_where_deletion_is_switched_off_older_clients_get_a_code_that_they_know(
    version: int,
) -> None:
    async with serving(NodeSettings(delete_topic_enable=False)) as served:
        await served.create("t")
        found = await result(served, by_name("t", version=version), version)
        disabled = ErrorCode.TOPIC_DELETION_DISABLED
        assert found.error_code == (disabled if version >= 3 else ErrorCode.INVALID_REQUEST)
        assert "t" in served.node.topics.by_name


async def test_a_deleted_topic_is_gone_after_a_restart() -> None:
    async with serving() as served:
        await served.create("t")
        await served.create("u")
        await result(served, by_name("t"))
    async with serving(disk=served.disk) as served:
        assert list(served.node.topics.by_name) == ["u"]


async def test_a_deletion_that_takes_too_long_is_answered_in_time(served: Served) -> None:
    await served.create("t")
    served.metastore.hold()
    found = await result(served, by_name("t", timeout_ms=1))
    assert found.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "may be so later" in found.error_message
    served.metastore.release()


@pytest.mark.parametrize("fault", [Contended("t"), MetaStoreUnavailable("away")])
async def test_trouble_that_passes_is_told_as_such(served: Served, fault: Exception) -> None:
    await served.create("t")
    served.metastore.fault = fault
    found = await result(served, by_name("t"))
    assert found.error_code == ErrorCode.NOT_CONTROLLER
    assert found.error_message == str(fault)
    served.metastore.fault = None
