"""CreatePartitions, v0-v3. The number asked for is the new total, not how many to add.

Every topic of the request is echoed with its own result (pitfall 24). The new partitions are there
for everybody when the answer leaves; `validate_only` checks and makes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of, sentence_of
from tierlog.broker.deadline import Deadline
from tierlog.broker.errors import InvalidRequest
from tierlog.broker.turns import in_turns
from tierlog.errors import TierlogError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.CREATE_PARTITIONS
VERSIONS: Final = (0, 3)


async def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    deadline = Deadline(call.node.env, request.timeout_ms)
    counts = Counter(topic.name for topic in request.topics)
    by_name = {topic.name: topic for topic in request.topics}
    results = []
    async for name, topic in in_turns(by_name.items()):
        try:
            if counts[name] > 1:
                raise InvalidRequest(f"topic {name!r:.300} comes {counts[name]} times")
            await add(topic, call, deadline, only_checks=request.validate_only)
        except TierlogError as error:
            results.append(refused(name, error))
        else:
            results.append(CreatePartitionsTopicResult(name=name, error_code=0))
    return CreatePartitionsResponse(throttle_time_ms=0, results=results)


async def add(
    asked: CreatePartitionsTopic, call: Call, deadline: Deadline, *, only_checks: bool
) -> None:
    assignments = asked.assignments
    await deadline.wait(
        call.node.controller.add_partitions(
            call.node.topics.named(asked.name),
            asked.count,
            assignments=None if assignments is None else [one.broker_ids for one in assignments],
            validate_only=only_checks,
        ),
        what=f"more partitions for topic {asked.name}",
    )


def refused(name: str, error: TierlogError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=code_of(error), error_message=sentence_of(error)
    )
