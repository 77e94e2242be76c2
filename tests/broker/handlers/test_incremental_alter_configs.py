"""IncrementalAlterConfigs on the wire."""

import asyncio
from typing import Any

import pytest

from tests.broker.support import Served
from tierlog.metastore import MetaStoreFull, Put, values
from tierlog.metastore.values import TopicState
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

VERSIONS = range(2)
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
LIST = "leader.replication.throttled.replicas"


def resource(
    *changes: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t"
) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


async def result(
    served: Served,
    asked: AlterConfigsResource,
    version: int = 1,
    *,
    validate_only: bool = False,
) -> Any:
    request = IncrementalAlterConfigsRequest(resources=[asked], validate_only=validate_only)
    (found,) = (await served.call(request, version)).responses
    assert (found.resource_type, found.resource_name) == (asked.resource_type, asked.resource_name)
    return found


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_sets_and_deletes_one_by_one(served: Served, version: int) -> None:
    topic = await served.create("t", retention_ms="1000", segment_bytes="4096")
    wish = resource(("segment.ms", SET, "60000"), ("retention.ms", DELETE, None))
    found = await result(served, wish, version)
    assert (found.error_code, found.error_message) == (0, None)
    assert topic.overrides == {"segment.bytes": "4096", "segment.ms": "60000"}
    assert topic.config.segment_ms == 60_000


@pytest.mark.parametrize("version", VERSIONS)
async def test_pitfall_24_append_and_subtract_edit_lists(served: Served, version: int) -> None:
    topic = await served.create("t")
    await result(served, resource((LIST, APPEND, "0:1,1:1")), version)
    await result(served, resource((LIST, APPEND, "2:1,0:1")), version)
    assert topic.overrides == {LIST: "0:1,1:1,2:1"}
    await result(served, resource((LIST, SUBTRACT, "1:1,9:9")), version)
    assert topic.overrides == {LIST: "0:1,2:1"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_validate_only_changes_nothing(served: Served, version: int) -> None:
    topic = await served.create("t")
    good = resource(("retention.ms", SET, "1"))
    assert (await result(served, good, version, validate_only=True)).error_code == 0
    bad = resource(("retention.ms", SET, "x"))
    found = await result(served, bad, version, validate_only=True)
    assert found.error_code == ErrorCode.INVALID_CONFIG
    assert topic.overrides == {}


async def test_changes_of_one_topic_happen_together_or_not_at_all(served: Served) -> None:
    topic = await served.create("t")
    wish = resource(("retention.ms", SET, "1"), ("segment.ms", SET, "never"))
    assert (await result(served, wish)).error_code == ErrorCode.INVALID_CONFIG
    assert topic.overrides == {}


async def test_changes_that_meet_are_all_kept(served: Served) -> None:
    topic = await served.create("t")
    names = ["retention.ms", "segment.ms", "segment.bytes", "flush.messages"]
    found = await asyncio.gather(*(result(served, resource((name, SET, "5000"))) for name in names))
    assert [one.error_code for one in found] == [0] * 4
    assert topic.overrides == dict.fromkeys(names, "5000")


async def test_a_change_by_another_node_meanwhile_is_kept(served: Served) -> None:
    topic = await served.create("t")
    served.metastore.hold(reads=True)
    altering = asyncio.ensure_future(result(served, resource(("retention.ms", SET, "5000"))))
    await served.metastore.reached()
    theirs = TopicState(name="t", configs={"segment.ms": "60000"}).to_bytes()
    done = await served.metastore.inner.txn([], [Put(values.topic_key(topic.id), theirs)])
    await served.node.catalogue.applied(done.revision)
    served.metastore.release()
    assert (await altering).error_code == 0
    assert topic.overrides == {"retention.ms": "5000", "segment.ms": "60000"}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource(name="x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource(("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (resource((LIST, APPEND, None)), ErrorCode.INVALID_REQUEST),
        (resource(("retention.ms", 4, "1")), ErrorCode.INVALID_REQUEST),
        (resource(("retention.ms", -1, "1")), ErrorCode.INVALID_REQUEST),
        (resource(*[("retention.ms", SET, "1")] * 2), ErrorCode.INVALID_REQUEST),
        (resource(("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (resource(("retention.ms", SET, "1s")), ErrorCode.INVALID_CONFIG),
        (resource(("no.such.setting", SET, "1")), ErrorCode.INVALID_CONFIG),
        (resource(("no.such.setting", DELETE, None)), ErrorCode.INVALID_CONFIG),
        (resource(("cleanup.policy", APPEND, "compact")), ErrorCode.INVALID_CONFIG),
        (resource(("remote.storage.enable", SET, "false")), ErrorCode.INVALID_CONFIG),
        (resource(kind=8, name="1"), ErrorCode.INVALID_REQUEST),
        (resource(kind=BROKER, name="2"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_wish_that_cannot_be_is_refused_with_a_sentence(
    served: Served, asked: AlterConfigsResource, code: ErrorCode
) -> None:
    topic = await served.create("t")
    found = await result(served, asked)
    assert found.error_code == code
    assert found.error_message
    assert topic.overrides == {}


@pytest.mark.parametrize("name", ["1", ""])
@pytest.mark.parametrize("version", VERSIONS)
async def test_settings_of_a_broker_are_read_only_at_run_time(
    served: Served, version: int, name: str
) -> None:
    wish = resource(("num.partitions", SET, "2"), kind=BROKER, name=name)
    found = await result(served, wish, version)
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert "read-only at run time" in found.error_message


async def test_a_resource_that_comes_twice_is_refused_and_the_others_are_changed(
    served: Served,
) -> None:
    topic, other = await served.create("t"), await served.create("u")
    change = ("retention.ms", SET, "1000")
    resources = [resource(change), resource(change, name="u"), resource(change)]
    response = await served.call(
        IncrementalAlterConfigsRequest(resources=resources, validate_only=False), 1
    )
    codes = {one.resource_name: one.error_code for one in response.responses}
    assert codes == {"t": ErrorCode.INVALID_REQUEST, "u": 0}
    assert (topic.overrides, other.overrides) == ({}, {"retention.ms": "1000"})


async def test_a_full_disk_changes_nothing_and_is_retriable(served: Served) -> None:
    topic = await served.create("t")
    served.metastore.fault = MetaStoreFull("no room")
    found = await result(served, resource(("retention.ms", SET, "1000")))
    assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert topic.overrides == {}
    served.metastore.fault = None
