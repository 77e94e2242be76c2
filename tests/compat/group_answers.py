"""How the recorder answers group and offset requests. One member a group, all is granted."""

from tests.compat.world import NODE_ID, Group, World
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import find_coordinator as coordinators
from tierlog.wire.messages import join_group as joins
from tierlog.wire.messages import leave_group as leaves
from tierlog.wire.messages import offset_commit as commits
from tierlog.wire.messages import offset_fetch as committed
from tierlog.wire.messages import sync_group as syncs
from tierlog.wire.messages import txn_offset_commit as txn_commits
from tierlog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tierlog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

MEMBER_ID_REQUIRED_FROM = 4  # KIP-394
MANY_KEYS_FROM = 4  # KIP-699
MANY_GROUPS_FROM = 8  # KIP-709
NO_OFFSET = (-1, "")


def find_coordinator(
    world: World, request: coordinators.FindCoordinatorRequest, version: int
) -> coordinators.FindCoordinatorResponse:
    if version < MANY_KEYS_FROM:
        return coordinators.FindCoordinatorResponse(
            node_id=NODE_ID, host=world.host, port=world.port
        )
    found = [
        coordinators.Coordinator(
            key=key,
            node_id=NODE_ID,
            host=world.host,
            port=world.port,
            error_code=0,
            error_message=None,
        )
        for key in request.coordinator_keys
    ]
    return coordinators.FindCoordinatorResponse(coordinators=found)


def join_group(
    world: World, request: joins.JoinGroupRequest, version: int
) -> joins.JoinGroupResponse:
    if version >= MEMBER_ID_REQUIRED_FROM and not request.member_id:
        return joins.JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED,
            protocol_name="",
            leader="",
            member_id=f"member-{world.next_id()}",
            members=[],
        )
    group = world.group(request.group_id)
    _seat(world, group, request)
    member = joins.JoinGroupResponseMember(
        member_id=group.member,
        group_instance_id=request.group_instance_id,
        metadata=group.metadata,
    )
    return joins.JoinGroupResponse(
        error_code=0,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.member,
        member_id=group.member,
        members=[member],
    )


def _seat(world: World, group: Group, request: joins.JoinGroupRequest) -> None:
    group.generation += 1
    group.member = request.member_id or f"member-{world.next_id()}"
    group.protocol_type = request.protocol_type
    group.protocol = request.protocols[0].name
    group.metadata = request.protocols[0].metadata


def sync_group(
    world: World, request: syncs.SyncGroupRequest, version: int
) -> syncs.SyncGroupResponse:
    del version
    group = world.group(request.group_id)
    for given in request.assignments:
        if given.member_id == group.member:
            group.assignment = given.assignment
    return syncs.SyncGroupResponse(
        error_code=0,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=group.assignment,
    )


def heartbeat(world: World, request: HeartbeatRequest, version: int) -> HeartbeatResponse:
    del version
    known = world.group(request.group_id).member == request.member_id
    return HeartbeatResponse(error_code=0 if known else ErrorCode.UNKNOWN_MEMBER_ID)


def leave_group(
    world: World, request: leaves.LeaveGroupRequest, version: int
) -> leaves.LeaveGroupResponse:
    del version
    world.group(request.group_id).member = ""
    left = [
        leaves.MemberResponse(
            member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=0
        )
        for one in request.members
    ]
    return leaves.LeaveGroupResponse(error_code=0, members=left)


def offset_commit(
    world: World, request: commits.OffsetCommitRequest, version: int
) -> commits.OffsetCommitResponse:
    del version
    group = world.group(request.group_id)
    answered = []
    for topic in request.topics:
        name = _name(world, topic.name, topic.topic_id)
        for one in topic.partitions:
            place = (name, one.partition_index)
            group.committed[place] = (one.committed_offset, one.committed_metadata)
        rows = [
            commits.OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=0)
            for one in topic.partitions
        ]
        answered.append(
            commits.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=rows
            )
        )
    return commits.OffsetCommitResponse(topics=answered)


def _name(world: World, name: str, topic_id: bytes) -> str:
    topic = world.find(name=name, topic_id=topic_id)
    return topic.name if topic else name


def offset_fetch(
    world: World, request: committed.OffsetFetchRequest, version: int
) -> committed.OffsetFetchResponse:
    if version >= MANY_GROUPS_FROM:
        return committed.OffsetFetchResponse(
            groups=[_fetched_group(world, group) for group in request.groups]
        )
    # A group that nobody knows is no error: its offsets are -1.
    group = world.group(request.group_id)
    asked = (
        _all_places(group)
        if request.topics is None
        else {topic.name: topic.partition_indexes for topic in request.topics}
    )
    return committed.OffsetFetchResponse(
        topics=[
            committed.OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    committed.OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=group.committed.get((name, index), NO_OFFSET)[0],
                        metadata=group.committed.get((name, index), NO_OFFSET)[1],
                        error_code=0,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in asked.items()
        ]
    )


def _all_places(group: Group) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for name, index in group.committed:
        places.setdefault(name, []).append(index)
    return places


def _fetched_group(
    world: World, asked: committed.OffsetFetchRequestGroup
) -> committed.OffsetFetchResponseGroup:
    group = world.group(asked.group_id)
    topics = asked.topics
    if topics is None:
        topics = [
            committed.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
            for name, indexes in _all_places(group).items()
        ]
    return committed.OffsetFetchResponseGroup(
        group_id=asked.group_id,
        topics=[_fetched_topic(world, group, topic) for topic in topics],
    )


def _fetched_topic(
    world: World, group: Group, asked: committed.OffsetFetchRequestTopics
) -> committed.OffsetFetchResponseTopics:
    name = _name(world, asked.name, asked.topic_id)
    rows = []
    for index in asked.partition_indexes:
        offset, metadata = group.committed.get((name, index), NO_OFFSET)
        rows.append(
            committed.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=offset, metadata=metadata, error_code=0
            )
        )
    return committed.OffsetFetchResponseTopics(
        name=asked.name, topic_id=asked.topic_id, partitions=rows
    )


def add_offsets_to_txn(
    world: World, request: AddOffsetsToTxnRequest, version: int
) -> AddOffsetsToTxnResponse:
    del world, request, version
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=0)


def txn_offset_commit(
    world: World, request: txn_commits.TxnOffsetCommitRequest, version: int
) -> txn_commits.TxnOffsetCommitResponse:
    del version
    group = world.group(request.group_id)
    answered = []
    for topic in request.topics:
        rows = []
        for one in topic.partitions:
            place = (topic.name, one.partition_index)
            group.committed[place] = (one.committed_offset, one.committed_metadata)
            rows.append(
                txn_commits.TxnOffsetCommitResponsePartition(
                    partition_index=one.partition_index, error_code=0
                )
            )
        answered.append(txn_commits.TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows))
    return txn_commits.TxnOffsetCommitResponse(throttle_time_ms=0, topics=answered)
