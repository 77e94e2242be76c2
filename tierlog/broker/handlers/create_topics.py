"""CreateTopics, v2-v7. v4 allows -1 for the node's default of partitions and replicas (KIP-464); v5
tells what was made, with its settings (KIP-525); v7 the topic id.

Each topic succeeds or fails by itself, and is there for everybody when the answer leaves. A name
that comes twice in one request is refused: which wish counts cannot be told. `validate_only` checks
and makes nothing, so there is no id to tell either.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of, sentence_of
from tierlog.broker.controller import NewTopic
from tierlog.broker.deadline import Deadline
from tierlog.broker.errors import InvalidAssignment, InvalidRequest
from tierlog.broker.turns import in_turns
from tierlog.config import InvalidConfig, describe_topic
from tierlog.errors import TierlogError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tierlog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.CREATE_TOPICS
VERSIONS: Final = (2, 7)
SETTINGS_FROM: Final = 5


async def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    deadline = Deadline(call.node.env, request.timeout_ms)
    counts = Counter(topic.name for topic in request.topics)
    by_name = {topic.name: topic for topic in request.topics}
    results = []
    async for name, topic in in_turns(by_name.items()):
        try:
            if counts[name] > 1:
                raise InvalidRequest(f"topic {name!r:.300} comes {counts[name]} times")
            results.append(await created(topic, call, deadline, only_checks=request.validate_only))
        except TierlogError as error:
            results.append(refused(name, error))
    return CreateTopicsResponse(throttle_time_ms=0, topics=results)


async def created(
    asked: CreatableTopic, call: Call, deadline: Deadline, *, only_checks: bool
) -> CreatableTopicResult:
    node = call.node
    wanted = NewTopic(
        name=asked.name,
        partitions=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignments=assignments_of(asked.assignments),
        configs=configs_of(asked.configs),
    )
    made = await deadline.wait(
        node.controller.create(wanted, validate_only=only_checks),
        what=f"creation of topic {asked.name}",
    )
    return CreatableTopicResult(
        name=made.name,
        topic_id=NO_UUID if only_checks else made.id,
        error_code=0,
        error_message=None,
        num_partitions=made.partitions,
        replication_factor=made.replication_factor,
        configs=settings_of(wanted, call) if call.version >= SETTINGS_FROM else [],
    )


def assignments_of(asked: list[CreatableReplicaAssignment]) -> dict[int, list[int]]:
    wanted = {one.partition_index: one.broker_ids for one in asked}
    if len(wanted) < len(asked):
        raise InvalidAssignment("a partition is assigned twice")
    return wanted


def configs_of(asked: list[CreatableTopicConfig]) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for config in asked:
        if config.value is None:
            raise InvalidConfig(config.name, f"{config.name} has no value")
        if config.name in wanted:
            raise InvalidRequest(f"{config.name} is set twice")
        wanted[config.name] = config.value
    return wanted


def settings_of(wanted: NewTopic, call: Call) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=None if entry.is_sensitive else entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in describe_topic(wanted.configs, call.node.settings)
    ]


def refused(name: str, error: TierlogError) -> CreatableTopicResult:
    # Empty, never null: the Java client stumbles over null (pitfall 7).
    return CreatableTopicResult(
        name=name, error_code=code_of(error), error_message=sentence_of(error), configs=[]
    )
