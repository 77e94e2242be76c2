"""AlterConfigs on the wire."""

from typing import Any

import pytest

from tests.broker.support import Served, serving
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)

VERSIONS = range(3)
TOPIC, BROKER = 2, 4


def resource(kind: int, name: str, **configs: str | None) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


async def result(
    served: Served,
    asked: AlterConfigsResource,
    version: int = 2,
    *,
    validate_only: bool = False,
) -> Any:
    request = AlterConfigsRequest(resources=[asked], validate_only=validate_only)
    response = await served.call(request, version)
    (found,) = response.responses
    assert (found.resource_type, found.resource_name) == (asked.resource_type, asked.resource_name)
    return found


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_replaces_all_overrides_of_a_topic(
    served: Served, version: int
) -> None:
    topic = await served.create("t", retention_ms="1000", segment_bytes="4096")
    found = await result(served, resource(TOPIC, "t", retention_ms="2000"), version)
    assert (found.error_code, found.error_message) == (0, None)
    assert topic.overrides == {"retention.ms": "2000"}
    assert (topic.config.retention_ms, topic.config.segment_bytes) == (2000, 128 << 20)


async def test_a_change_takes_effect_on_the_open_log_and_outlives_a_restart() -> None:
    async with serving() as served:
        topic = await served.create("t")
        await result(served, resource(TOPIC, "t", segment_bytes="4096"))
        assert topic.partition(0).log.settings.segment_bytes == 4096
    async with serving(disk=served.disk) as served:
        assert served.node.topics.named("t").overrides == {"segment.bytes": "4096"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_validate_only_changes_nothing(served: Served, version: int) -> None:
    topic = await served.create("t")
    wish = resource(TOPIC, "t", retention_ms="1")
    assert (await result(served, wish, version, validate_only=True)).error_code == 0
    wrong = resource(TOPIC, "t", retention_ms="x")
    found = await result(served, wrong, version, validate_only=True)
    assert found.error_code == ErrorCode.INVALID_CONFIG
    assert topic.overrides == {}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource(TOPIC, "x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (resource(TOPIC, ""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (resource(TOPIC, "t", retention_ms="-2"), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", no_such_setting="1"), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", log_retention_ms="1"), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", remote_storage_enable="false"), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", cleanup_policy="compact"), ErrorCode.INVALID_CONFIG),
        (resource(TOPIC, "t", retention_ms=None), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "1", num_partitions="2"), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "", num_partitions="2"), ErrorCode.INVALID_REQUEST),
        (resource(BROKER, "2", num_partitions="2"), ErrorCode.INVALID_REQUEST),
        (resource(8, "1"), ErrorCode.INVALID_REQUEST),
        (resource(99, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_wish_that_cannot_be_is_refused_with_a_sentence(
    served: Served, asked: AlterConfigsResource, code: ErrorCode
) -> None:
    topic = await served.create("t", segment_ms="60000")
    found = await result(served, asked)
    assert found.error_code == code
    assert found.error_message
    assert topic.overrides == {"segment.ms": "60000"}


async def test_a_setting_or_a_resource_that_comes_twice_is_refused(served: Served) -> None:
    topic = await served.create("t")
    twice = resource(TOPIC, "t")
    twice.configs = [AlterableConfig(name="retention.ms", value=str(n)) for n in range(2)]
    assert (await result(served, twice)).error_code == ErrorCode.INVALID_REQUEST
    one, other = (resource(TOPIC, "t", retention_ms=str(n)) for n in range(2))
    request = AlterConfigsRequest(resources=[one, other], validate_only=False)
    response = await served.call(request, 2)
    assert [each.error_code for each in response.responses] == [ErrorCode.INVALID_REQUEST]
    assert topic.overrides == {}
