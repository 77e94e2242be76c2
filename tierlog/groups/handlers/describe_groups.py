"""DescribeGroups, v0-v6. A group that nobody knows is Dead and no error; from v6 on it is
GROUP_ID_NOT_FOUND. So is a consumer group, which ConsumerGroupDescribe tells of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.errors import TierlogError
from tierlog.groups.classic import ClassicGroup, State
from tierlog.groups.handlers.codes import code_of
from tierlog.groups.service import groups_of
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from tierlog.broker.call import Call

API: Final = ApiKey.DESCRIBE_GROUPS
VERSIONS: Final = (0, 6)
NOT_FOUND_FROM: Final = 6


async def handle(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_described(one, call) for one in request.groups])


def _described(group_id: str, call: Call) -> DescribedGroup:
    try:
        machine = groups_of(call.node).shard_of(group_id).machine
    except TierlogError as error:
        return _without(group_id, code_of(error), str(error), State.DEAD)
    group = machine.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return _whole(group)
    if group is None and group_id in machine.offsets:
        return _without(group_id, ErrorCode.NONE, None, State.EMPTY)
    if call.version >= NOT_FOUND_FROM:
        sentence = f"there is no group {group_id!r}"
        if group is not None:
            sentence = f"{group_id!r} is a consumer group, not a classic one"
        return _without(group_id, ErrorCode.GROUP_ID_NOT_FOUND, sentence, State.DEAD)
    return _without(group_id, ErrorCode.NONE, None, State.DEAD)


def _without(group_id: str, error: ErrorCode, sentence: str | None, state: State) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=sentence,
        group_id=group_id,
        group_state=state.value,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _whole(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is State.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        error_message=None,
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=group.protocol or "" if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=one.id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.host,
                member_metadata=one.metadata(group.protocol) if is_stable else b"",
                member_assignment=one.assignment if is_stable else b"",
            )
            for one in group.members.values()
        ],
    )
