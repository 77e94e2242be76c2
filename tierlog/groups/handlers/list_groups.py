"""ListGroups, v0-v5. v4 filters by state, v5 by type; neither minds upper and lower case.

While shards load the answer says so, and has the groups of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tierlog.groups.classic import State
from tierlog.groups.consumer import ConsumerGroup
from tierlog.groups.service import groups_of
from tierlog.wire.api_keys import ApiKey
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tierlog.broker.call import Call

API: Final = ApiKey.LIST_GROUPS
VERSIONS: Final = (0, 5)
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


async def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    is_loading = groups_of(call.node).loading
    states = {one.lower() for one in request.states_filter}
    types = {one.lower() for one in request.types_filter}
    return ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE,
        groups=[
            one
            for one in _all(call)
            if (not states or one.group_state.lower() in states)
            and (not types or one.group_type in types)
        ],
    )


def _all(call: Call) -> Iterator[ListedGroup]:
    for shard in groups_of(call.node).shards:
        # One that loads knows half of its groups, each as it was once.
        for group_id in shard.machine.group_ids() if shard.is_loaded else ():
            group = shard.machine.groups.get(group_id)
            yield ListedGroup(
                group_id=group_id,
                protocol_type="" if group is None else group.protocol_type or "",
                group_state=(State.EMPTY if group is None else group.state).value,
                group_type=CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC,
            )
