"""DescribeConfigs, v1-v4. v1 tells where each value comes from, and its synonyms if asked; v3 types
and, if asked, what a setting means.

Every setting of a topic or of this node, the defaults included (pitfall 24), or those asked for by
name. A broker with an empty name stands for what is set for all of them at run time: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of, sentence_of
from tierlog.broker.resources import (
    BROKER,
    EVERY_NODE,
    TOPIC,
    check_node,
    has_no_settings,
    topic_of,
)
from tierlog.broker.turns import in_turns
from tierlog.config import describe_node, describe_topic
from tierlog.errors import TierlogError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.config import ConfigEntry

API: Final = ApiKey.DESCRIBE_CONFIGS
VERSIONS: Final = (1, 4)


RESOURCES_A_TURN: Final = 20
"""Each has some forty settings to be worked out."""


async def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    # Each once, however often it was asked for: librdkafka takes a second answer for a fault.
    wanted = {(one.resource_type, one.resource_name): one for one in request.resources}
    return DescribeConfigsResponse(
        throttle_time_ms=0,
        results=[
            described(resource, request, call)
            async for resource in in_turns(wanted.values(), RESOURCES_A_TURN)
        ],
    )


def described(
    asked: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResult:
    try:
        entries = entries_of(asked, call)
    except TierlogError as error:
        return DescribeConfigsResult(
            error_code=code_of(error),
            error_message=sentence_of(error),
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )
    keys = set(asked.configuration_keys or ())  # None or empty: all of them.
    return DescribeConfigsResult(
        error_code=0,
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[told(entry, request) for entry in entries if not keys or entry.name in keys],
    )


def entries_of(asked: DescribeConfigsResource, call: Call) -> list[ConfigEntry]:
    node = call.node
    if asked.resource_type == TOPIC:
        return describe_topic(topic_of(asked.resource_name, node).overrides, node.settings)
    if asked.resource_type == BROKER:
        check_node(asked.resource_name, node)
        return [] if asked.resource_name == EVERY_NODE else describe_node(node.settings)
    raise has_no_settings(asked.resource_type)


def told(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=shown(entry, entry.value),
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(
                name=synonym.name, value=shown(entry, synonym.value), source=synonym.source
            )
            for synonym in entry.synonyms
            if request.include_synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def shown(entry: ConfigEntry, value: str | None) -> str | None:
    """Secrets are named, never told."""
    return None if entry.is_sensitive else value
