"""AlterConfigs, v0-v2. Replaces all overrides of a topic: what is not named falls back to its
default. IncrementalAlterConfigs changes one by one, and is what clients use today.

Takes effect without a restart, and has when the answer leaves. How long records live then stands
in the bucket as well, or the sender hears an error that it may try again after (U7b).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of, sentence_of
from tierlog.broker.errors import InvalidRequest
from tierlog.broker.resources import TOPIC, cannot_change, in_bucket, topic_of
from tierlog.broker.turns import in_turns
from tierlog.errors import TierlogError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.ALTER_CONFIGS
VERSIONS: Final = (0, 2)


async def handle(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    counts = Counter((one.resource_type, one.resource_name) for one in request.resources)
    wanted = {(one.resource_type, one.resource_name): one for one in request.resources}
    responses = []
    async for (resource_type, name), resource in in_turns(wanted.items()):
        answer = AlterConfigsResourceResponse(
            error_code=0, error_message=None, resource_type=resource_type, resource_name=name
        )
        try:
            if counts[resource_type, name] > 1:
                raise InvalidRequest("the resource comes more than once")
            await alter(resource, call, only_checks=request.validate_only)
        except TierlogError as error:
            answer.error_code, answer.error_message = code_of(error), sentence_of(error)
        responses.append(answer)
    return AlterConfigsResponse(throttle_time_ms=0, responses=responses)


async def alter(resource: AlterConfigsResource, call: Call, *, only_checks: bool) -> None:
    if resource.resource_type != TOPIC:
        raise cannot_change(resource.resource_type, resource.resource_name, call.node)
    topic = topic_of(resource.resource_name, call.node)
    wanted = configs_of(resource.configs)
    await call.node.controller.replace_configs(topic, wanted, validate_only=only_checks)
    await in_bucket(topic, call, only_checks=only_checks)


def configs_of(asked: list[AlterableConfig]) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for config in asked:
        if config.value is None:
            raise InvalidRequest(f"{config.name} has no value")
        if config.name in wanted:
            raise InvalidRequest(f"{config.name} is set twice")
        wanted[config.name] = config.value
    return wanted
