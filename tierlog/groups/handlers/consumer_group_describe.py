"""ConsumerGroupDescribe, v0-v1. v1 says that members speak the consumer protocol (KIP-1099). A
group that nobody knows, or that is not of this kind, is GROUP_ID_NOT_FOUND."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.consumer import ConsumerGroup
from tierlog.groups.consumer_member import by_topic
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tierlog.broker.call import Call
    from tierlog.groups.assigning import Spot
    from tierlog.groups.consumer_member import ConsumerMember
    from tierlog.groups.topicview import TopicView

API: Final = ApiKey.CONSUMER_GROUP_DESCRIBE
VERSIONS: Final = (0, 1)
SPEAKS_CONSUMER: Final = 1
DEAD: Final = "Dead"


async def handle(
    request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=0, groups=[_described(one, call) for one in request.group_ids]
    )


def _described(group_id: str, call: Call) -> DescribedGroup:
    groups = groups_of(call.node)
    try:
        group = groups.shard_of(group_id).machine.groups.get(group_id)
    except TierlogError as error:
        return _without(group_id, code_of(error), str(error))
    if not isinstance(group, ConsumerGroup):
        sentence = f"there is no consumer group {group_id!r}"
        return _without(group_id, ErrorCode.GROUP_ID_NOT_FOUND, sentence)
    return _whole(group, groups.topic_view)


def _without(group_id: str, error: ErrorCode, sentence: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=sentence,
        group_id=group_id,
        group_state=DEAD,
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _whole(group: ConsumerGroup, topics: TopicView) -> DescribedGroup:
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(one, group, topics) for one in group.members.values()],
    )


def _member(member: ConsumerMember, group: ConsumerGroup, topics: TopicView) -> Member:
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(group.targets.get(member.id, ()), topics),
        member_type=SPEAKS_CONSUMER,
    )


def _assignment(spots: Iterable[Spot], topics: TopicView) -> Assignment:
    """Of topics that are still there: others have no name."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic_id, topic_name=topics.names[topic_id], partitions=partitions
            )
            for topic_id, partitions in by_topic(spots).items()
            if topic_id in topics.names
        ]
    )
