"""DeleteTopics, v1-v6. v3 has a code for deletion being switched off; v5 tells the reason of an
error in words; v6 names topics by name or by id.

When the answer leaves, nobody finds the topic any more. An id that is not known any more is
UNKNOWN_TOPIC_ID, also where a topic was made again under the same name (pitfall 5). What is asked
for twice, be it once by name and once by id, is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tierlog.broker.codes import code_of, sentence_of
from tierlog.broker.deadline import Deadline
from tierlog.broker.errors import InvalidRequest, TopicDeletionDisabled
from tierlog.broker.turns import in_turns
from tierlog.errors import TierlogError
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tierlog.wire.schema import NO_UUID

if TYPE_CHECKING:
    from tierlog.broker.call import Call
    from tierlog.broker.topics import Topic

API: Final = ApiKey.DELETE_TOPICS
VERSIONS: Final = (1, 6)
DISABLED_FROM: Final = 3
IDS_FROM: Final = 6


async def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    deadline = Deadline(call.node.env, request.timeout_ms)
    asked = request.topics
    if call.version < IDS_FROM:
        asked = [DeleteTopicState(name=name, topic_id=NO_UUID) for name in request.topic_names]
    counts = Counter(identity(one, call) for one in asked)
    responses = []
    async for one in in_turns(distinct(asked)):
        try:
            if counts[identity(one, call)] > 1:
                raise InvalidRequest("the topic is named more than once")
            responses.append(await deleted(one, call, deadline))
        except TierlogError as error:
            responses.append(refused(one, error, call))
    return DeleteTopicsResponse(throttle_time_ms=0, responses=responses)


def distinct(asked: list[DeleteTopicState]) -> list[DeleteTopicState]:
    return list({(one.name, one.topic_id): one for one in asked}.values())


def identity(asked: DeleteTopicState, call: Call) -> object:
    """The same for everything that means the same topic."""
    try:
        return find(asked, call).id
    except TierlogError:
        return (asked.name, asked.topic_id)


def find(asked: DeleteTopicState, call: Call) -> Topic:
    by_id = asked.topic_id != NO_UUID
    if by_id and asked.name is not None:
        raise InvalidRequest("a topic is named by its name or by its id, not by both")
    if by_id:
        return call.node.topics.with_id(asked.topic_id)
    if asked.name is None:
        raise InvalidRequest("a topic has neither name nor id")
    return call.node.topics.named(asked.name)


async def deleted(asked: DeleteTopicState, call: Call, deadline: Deadline) -> DeletableTopicResult:
    topic = find(asked, call)
    await deadline.wait(call.node.controller.delete(topic), what=f"deletion of topic {topic.name}")
    return DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=0)


def refused(asked: DeleteTopicState, error: TierlogError, call: Call) -> DeletableTopicResult:
    code = code_of(error)
    if isinstance(error, TopicDeletionDisabled) and call.version < DISABLED_FROM:
        code = ErrorCode.INVALID_REQUEST
    return DeletableTopicResult(
        name=asked.name, topic_id=asked.topic_id, error_code=code, error_message=sentence_of(error)
    )
