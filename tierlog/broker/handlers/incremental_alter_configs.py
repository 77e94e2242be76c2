"""IncrementalAlterConfigs, v0-v1. Sets and deletes overrides one by one, and appends to and
subtracts from lists (KIP-339, pitfall 24).

The changes of one topic happen together or not at all. They take effect without a restart, and have
when the answer leaves. How long records live then stands in the bucket as well, or the sender hears
an error that it may try again after (U7b).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from tierlog.broker.codes import code_of, sentence_of
from tierlog.broker.errors import InvalidRequest
from tierlog.broker.resources import TOPIC, cannot_change, in_bucket, topic_of
from tierlog.broker.turns import in_turns
from tierlog.config import Change
from tierlog.errors import TierlogError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS: Final = (0, 1)

Operation = Literal["set", "delete", "append", "subtract"]
OPERATIONS: Final[dict[int, Operation]] = {0: "set", 1: "delete", 2: "append", 3: "subtract"}


async def handle(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
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
    return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)


async def alter(resource: AlterConfigsResource, call: Call, *, only_checks: bool) -> None:
    if resource.resource_type != TOPIC:
        raise cannot_change(resource.resource_type, resource.resource_name, call.node)
    topic = topic_of(resource.resource_name, call.node)
    await call.node.controller.alter(topic, changes_of(resource.configs), validate_only=only_checks)
    await in_bucket(topic, call, only_checks=only_checks)


def changes_of(asked: list[AlterableConfig]) -> list[Change]:
    if len({config.name for config in asked}) < len(asked):
        raise InvalidRequest("a setting may be changed only once in a request")
    return [change_of(config) for config in asked]


def change_of(config: AlterableConfig) -> Change:
    operation = OPERATIONS.get(config.config_operation)
    if operation is None:
        raise InvalidRequest(
            f"operation {config.config_operation} on {config.name} is unknown: 0 sets, 1 deletes, "
            "2 appends, 3 subtracts"
        )
    if operation != "delete" and config.value is None:
        raise InvalidRequest(f"{config.name} has no value to {operation}")
    return Change(config.name, operation, config.value)
