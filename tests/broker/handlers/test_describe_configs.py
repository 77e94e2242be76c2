"""DescribeConfigs on the wire."""

from typing import Any

import pytest

from tests.broker.support import Served, serving
from tierlog.config import (
    ConfigSource,
    ConfigType,
    NodeSettings,
    describe_node,
    describe_topic,
)
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)

VERSIONS = range(1, 5)
TOPIC, BROKER = 2, 4


def request(
    *resources: tuple[int, str],
    keys: list[str] | None = None,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


async def result(served: Served, asked: DescribeConfigsRequest, version: int = 4) -> Any:
    response = await served.call(asked, version)
    assert len(response.results) == 1
    return response.results[0]


@pytest.mark.parametrize("version", VERSIONS)
async def test_pitfall_24_every_setting_of_a_topic_is_told_in_every_version(
    served: Served, version: int
) -> None:
    topic = await served.create("t", retention_ms="1000")
    found = await result(served, request((TOPIC, "t")), version)
    assert (found.error_code, found.resource_type, found.resource_name) == (0, TOPIC, "t")
    known = describe_topic(topic.overrides, served.node.settings)
    assert [one.name for one in found.configs] == [one.name for one in known]
    by_name = {one.name: one for one in found.configs}
    own = by_name["retention.ms"]
    assert (own.value, own.config_source) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert (own.read_only, own.is_sensitive) == (False, False)
    default = by_name["max.message.bytes"]
    assert (default.value, default.config_source) == ("1048588", ConfigSource.DEFAULT)


@pytest.mark.parametrize("version", VERSIONS)
async def test_pitfall_24_every_setting_of_the_node_is_told_and_is_read_only(
    served: Served, version: int
) -> None:
    found = await result(served, request((BROKER, "1")), version)
    assert found.error_code == 0
    known = describe_node(served.node.settings)
    assert [(one.name, one.value) for one in found.configs] == [
        (one.name, one.value) for one in known
    ]
    assert all(one.read_only for one in found.configs)


@pytest.mark.parametrize("version", VERSIONS)
async def test_pitfall_24_synonyms_come_when_asked_for_the_winner_first(version: int) -> None:
    async with serving(NodeSettings(log_retention_ms=5000)) as served:
        await served.create("t", retention_ms="1000")
        asked = request((TOPIC, "t"), keys=["retention.ms"], synonyms=True)
        (one,) = (await result(served, asked, version)).configs
        assert [(each.name, each.value, each.source) for each in one.synonyms] == [
            ("retention.ms", "1000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
            ("log.retention.ms", "5000", ConfigSource.STATIC_BROKER),
            ("log.retention.ms", "604800000", ConfigSource.DEFAULT),
        ]
        (one,) = (
            await result(served, request((TOPIC, "t"), keys=["retention.ms"]), version)
        ).configs
        assert one.synonyms == []


@pytest.mark.parametrize("version", [3, 4])
async def test_types_are_told_and_documentation_when_asked_for(
    served: Served, version: int
) -> None:
    await served.create("t")
    for wants in (True, False):
        asked = request((TOPIC, "t"), documentation=wants)
        by_name = {one.name: one for one in (await result(served, asked, version)).configs}
        assert by_name["retention.ms"].config_type == ConfigType.LONG
        assert by_name["cleanup.policy"].config_type == ConfigType.LIST
        assert all(bool(one.documentation) == wants for one in by_name.values())


@pytest.mark.parametrize("keys", [["retention.ms", "no.such.setting"], ["retention.ms"]])
async def test_only_the_settings_asked_for_are_told(served: Served, keys: list[str]) -> None:
    await served.create("t")
    found = await result(served, request((TOPIC, "t"), keys=keys))
    assert [one.name for one in found.configs] == ["retention.ms"]


async def test_an_empty_list_of_names_asks_for_all(served: Served) -> None:
    await served.create("t")
    every = await result(served, request((TOPIC, "t")))
    assert await result(served, request((TOPIC, "t"), keys=[])) == every


async def test_a_setting_of_the_node_that_is_not_the_default_says_so() -> None:
    async with serving(NodeSettings(node_id=7, num_partitions=4)) as served:
        found = await result(served, request((BROKER, "7"), keys=["num.partitions"]))
        assert [(one.value, one.config_source) for one in found.configs] == [
            ("4", ConfigSource.STATIC_BROKER)
        ]


async def test_nothing_is_set_for_all_brokers_at_run_time(served: Served) -> None:
    found = await result(served, request((BROKER, "")))
    assert (found.error_code, found.configs) == (0, [])


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
        (16, "metrics", ErrorCode.INVALID_REQUEST),
        (32, "group", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
        (-1, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_an_unknown_resource_is_refused_with_a_sentence(
    served: Served, kind: int, name: str, code: ErrorCode
) -> None:
    found = await result(served, request((kind, name)))
    assert found.error_code == code
    assert found.error_message
    assert (found.resource_type, found.resource_name, found.configs) == (kind, name, [])


async def test_a_resource_asked_for_twice_is_answered_once(served: Served) -> None:
    await served.create("t")
    response = await served.call(request((TOPIC, "t"), (BROKER, "1"), (TOPIC, "t")), 4)
    assert [one.resource_name for one in response.results] == ["t", "1"]
