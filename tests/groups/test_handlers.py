"""The APIs of groups, as a client meets them: every version, over the wire."""

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from tests.broker.support import Served
from tests.groups.conftest import serving_groups
from tierlog.broker.controller import NewTopic
from tierlog.broker.errors import InternalTopic
from tierlog.config.errors import InvalidConfig
from tierlog.coordinator.shard import Shard
from tierlog.groups.handlers import offset_commit
from tierlog.groups.service import groups_of
from tierlog.hot.errors import DiskFull
from tierlog.sim.disk import SimDisk
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import delete_groups as deleting
from tierlog.wire.messages import describe_groups as describing
from tierlog.wire.messages import find_coordinator as finding
from tierlog.wire.messages import heartbeat as beating
from tierlog.wire.messages import join_group as joining
from tierlog.wire.messages import leave_group as leaving
from tierlog.wire.messages import list_groups as listing
from tierlog.wire.messages import offset_commit as committing
from tierlog.wire.messages import offset_delete as forgetting
from tierlog.wire.messages import offset_fetch as fetching
from tierlog.wire.messages import sync_group as syncing

GROUP = "g"


async def found(served: Served) -> None:
    """The coordinator is there, and has loaded."""
    await served.call(finding.FindCoordinatorRequest(key=GROUP), 3)
    await loaded(served)


async def loaded(served: Served) -> None:
    while (await listed(served)).error_code:  # noqa: ASYNC110  clients ask again, too
        await asyncio.sleep(0)


async def listed(served: Served, version: int = 5, **filters: Any) -> Any:
    return await served.call(listing.ListGroupsRequest(**filters), version)


@pytest.mark.parametrize("version", range(7))
async def test_every_group_is_looked_after_by_this_node(served: Served, version: int) -> None:
    keys = ["a", "b"] if version >= 4 else []
    request = finding.FindCoordinatorRequest(key="" if keys else "a", coordinator_keys=keys)
    response = await served.call(request, version)
    answers = response.coordinators if keys else [response]
    assert [(one.error_code, one.node_id, one.host, one.port) for one in answers] == [
        (0, 1, "10.0.0.1", 9092)
    ] * len(answers)


@pytest.mark.parametrize("version", [1, 3, 4, 6])
async def test_pitfall_19_without_transactions_clients_are_told_to_try_again(
    served: Served, version: int
) -> None:
    keys = ["a", "b"] if version >= 4 else []
    request = finding.FindCoordinatorRequest(
        key="" if keys else "a", key_type=1, coordinator_keys=keys
    )
    response = await served.call(request, version)
    codes = [one.error_code for one in (response.coordinators if keys else [response])]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(codes)
    assert ErrorCode.COORDINATOR_NOT_AVAILABLE.retriable


async def test_pitfall_19_before_anybody_asked_the_answer_is_retriable(served: Served) -> None:
    response = await joined(served, 4)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def joined(served: Served, version: int, member_id: str = "", **more: Any) -> Any:
    request = joining.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[joining.JoinGroupRequestProtocol(name="range", metadata=b"s")],
        **more,
    )
    return await served.call(request, version)


async def member_of(served: Served, version: int) -> Any:
    """The answer of a join that counted."""
    first = await joined(served, version)
    if first.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return await joined(served, version, first.member_id)
    return first


@pytest.mark.parametrize("version", range(10))
async def test_a_lone_member_joins_syncs_beats_and_leaves(served: Served, version: int) -> None:
    await found(served)
    member = await member_of(served, version)
    assert (member.error_code, member.generation_id, member.protocol_name) == (0, 1, "range")
    assert [one.member_id for one in member.members] == [member.member_id] == [member.leader]
    name = {"group_id": GROUP, "member_id": member.member_id, "generation_id": 1}
    share = syncing.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"mine")
    synced = await served.call(
        syncing.SyncGroupRequest(**name, assignments=[share]), min(version, 5)
    )
    assert (synced.error_code, bytes(synced.assignment)) == (0, b"mine")
    beat = await served.call(beating.HeartbeatRequest(**name), min(version, 4))
    assert beat.error_code == 0
    identity = leaving.MemberIdentity(member_id=member.member_id)
    request = (
        leaving.LeaveGroupRequest(group_id=GROUP, members=[identity])
        if version >= 3
        else leaving.LeaveGroupRequest(group_id=GROUP, member_id=member.member_id)
    )
    left = await served.call(request, min(version, 5))
    assert left.error_code == 0
    assert [one.error_code for one in left.members] == ([0] if version >= 3 else [])
    beat = await served.call(beating.HeartbeatRequest(**name), min(version, 4))
    assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_heartbeat_is_answered_where_it_is_read(served: Served) -> None:
    await found(served)
    member = await member_of(served, 9)
    request = beating.HeartbeatRequest(
        group_id=GROUP, member_id=member.member_id, generation_id=member.generation_id
    )
    assert isinstance(served.send(request, 4), list)


async def test_a_second_member_waits_until_the_first_has_joined_again(served: Served) -> None:
    await found(served)
    first = await member_of(served, 9)
    answer = served.send(second_join("c"), 3)
    assert isinstance(answer, asyncio.Future)
    await asyncio.sleep(0)
    assert not answer.done()
    again = await joined(served, 9, first.member_id)
    assert (again.generation_id, len(again.members)) == (2, 2)
    assert await answer is not None


def second_join(name: str) -> joining.JoinGroupRequest:
    return joining.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[joining.JoinGroupRequestProtocol(name="range", metadata=name.encode())],
    )


@pytest.mark.parametrize("version", [0, 6, 7, 9])
async def test_pitfall_15_an_error_carries_a_null_protocol_from_v7_on(
    served: Served, version: int
) -> None:
    await found(served)
    response = await joined(served, version, "nobody")
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert response.protocol_name == (None if version >= 7 else "")


# Offsets


async def commit(served: Served, version: int, *, topic: str = "t", partition: int = 0) -> int:
    known = served.node.topics.by_name.get(topic)
    names: dict[str, Any] = {"name": topic}
    if version >= 10:
        names = {"topic_id": b"\1" * 16 if known is None else known.id}
    request = committing.OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            committing.OffsetCommitRequestTopic(
                **names,
                partitions=[
                    committing.OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=42,
                        committed_leader_epoch=0,
                        committed_metadata="note",
                    )
                ],
            )
        ],
    )
    response = await served.call(request, version)
    code: int = response.topics[0].partitions[0].error_code
    return code


async def committed(served: Served, version: int, *, all_of_them: bool = False) -> Any:
    topic = served.node.topics.by_name["t"]
    if version < 8:
        older = [fetching.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        request = fetching.OffsetFetchRequest(group_id=GROUP, topics=None if all_of_them else older)
        return (await served.call(request, version)).topics
    newer = fetching.OffsetFetchRequestTopics(name="t", topic_id=topic.id, partition_indexes=[0, 1])
    group = fetching.OffsetFetchRequestGroup(
        group_id=GROUP, topics=None if all_of_them else [newer]
    )
    response = await served.call(fetching.OffsetFetchRequest(groups=[group]), version)
    return response.groups[0].topics


@pytest.mark.parametrize("version", range(2, 11))
async def test_what_is_committed_is_fetched(served: Served, version: int) -> None:
    await served.create("t", partitions=2)
    await found(served)
    assert await commit(served, version) == 0
    (topic,) = await committed(served, version)
    first, second = topic.partitions
    epoch = 0 if version >= 6 else -1
    assert (first.committed_offset, first.metadata) == (42, "note")
    assert version < 5 or first.committed_leader_epoch == epoch
    assert (second.committed_offset, second.error_code) == (-1, 0)
    (topic,) = await committed(served, version, all_of_them=True)
    assert [one.partition_index for one in topic.partitions] == [0]


@pytest.mark.parametrize("version", [1, 7, 8, 10])
async def test_pitfall_08_offsets_of_a_group_that_nobody_knows(
    served: Served, version: int
) -> None:
    await served.create("t", partitions=2)
    await found(served)
    (topic,) = await committed(served, version)
    assert [(one.committed_offset, one.error_code) for one in topic.partitions] == [(-1, 0)] * 2


async def test_pitfall_06_offsets_go_by_the_topics_id_alone_from_v10_on(served: Served) -> None:
    topic = await served.create("t", partitions=1)
    await found(served)
    wanted = {topic.id: ErrorCode.NONE, b"\1" * 16: ErrorCode.UNKNOWN_TOPIC_ID}
    partition = committing.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=42, committed_metadata=""
    )
    committed = await served.call(
        committing.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                committing.OffsetCommitRequestTopic(topic_id=one, partitions=[partition])
                for one in wanted
            ],
        ),
        10,
    )
    told = {one.topic_id: one.partitions[0].error_code for one in committed.topics}
    assert told == wanted
    asked = [
        fetching.OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in wanted
    ]
    group = fetching.OffsetFetchRequestGroup(group_id=GROUP, topics=asked)
    answer = await served.call(fetching.OffsetFetchRequest(groups=[group]), 10)
    rows = {one.topic_id: one.partitions[0] for one in answer.groups[0].topics}
    assert {key: row.error_code for key, row in rows.items()} == wanted
    assert [row.committed_offset for row in rows.values()] == [42, -1]


@pytest.mark.parametrize("version", [2, 10])
async def test_what_is_not_there_cannot_be_committed(served: Served, version: int) -> None:
    await served.create("t", partitions=1)
    await found(served)
    code = await commit(served, version, topic="nowhere")
    wanted = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code == wanted
    assert await commit(served, version, partition=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_offsets_outlive_the_node() -> None:
    disk = SimDisk()
    async with serving_groups(disk) as served:
        await served.create("t", partitions=2)
        await found(served)
        await commit(served, 8)
    async with serving_groups(disk) as served:
        await loaded(served)
        (topic,) = await committed(served, 8)
        assert topic.partitions[0].committed_offset == 42


async def test_groups_are_listed_as_far_as_they_are_loaded(served: Served) -> None:
    await served.create("t", partitions=2)
    await found(served)
    await loaded(served)
    await commit(served, 8)
    shards = groups_of(served.node).shards
    (mine,) = (one for one in shards if one.machine.offsets)
    other = next((one for one in shards if one is not mine), None)
    for one, wanted in ((other, [GROUP]), (mine, [])):
        if one is not None:
            one.is_loaded = False
            answer = await listed(served)
            assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert [each.group_id for each in answer.groups] == wanted
            one.is_loaded = True
    assert (await listed(served)).error_code == 0


async def test_offsets_go_with_their_topic(served: Served) -> None:
    await served.create("t", partitions=2)
    await found(served)
    await commit(served, 8)
    await served.node.controller.delete(served.node.topics.named("t"))
    await served.create("t", partitions=2)
    (topic,) = await committed(served, 8)
    assert topic.partitions[0].committed_offset == -1


async def test_offsets_go_with_a_topic_that_is_made_anew_while_they_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, may_load = SimDisk(), asyncio.Event()
    async with serving_groups(disk) as served:
        await served.create("t", partitions=2)
        await found(served)
        await commit(served, 8)
    load = Shard.load

    async def waiting(self: Shard[Any]) -> None:
        await may_load.wait()
        await load(self)

    monkeypatch.setattr(Shard, "load", waiting)
    async with serving_groups(disk) as served:
        await served.node.controller.delete(served.node.topics.named("t"))
        await served.create("t", partitions=2)
        may_load.set()
        await loaded(served)
        (topic,) = await committed(served, 8)
        assert topic.partitions[0].committed_offset == -1


def full_disk(served: Served) -> Any:
    log = groups_of(served.node).shards[0]._partition.log
    return patch.object(type(log), "append", side_effect=DiskFull("full"))


async def test_offsets_go_with_a_topic_that_is_deleted_while_the_disk_is_full() -> None:
    """Also for whoever comes after a restart: that the disk was full is not written down."""
    disk = SimDisk()
    async with serving_groups(disk) as served:
        await served.create("t", partitions=2)
        await found(served)
        await commit(served, 8)
        with full_disk(served):
            await served.node.controller.delete(served.node.topics.named("t"))
            await served.create("t", partitions=2)
            await loaded(served)
            (topic,) = await committed(served, 8)
            assert topic.partitions[0].committed_offset == -1
    async with serving_groups(disk) as served:
        await loaded(served)
        (topic,) = await committed(served, 8)
        assert topic.partitions[0].committed_offset == -1


async def test_offsets_without_a_topic_id_go_with_a_topic_that_is_deleted_while_they_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older node wrote them."""
    disk, may_load = SimDisk(), asyncio.Event()
    async with serving_groups(disk) as served:
        await served.create("t", partitions=2)
        await found(served)
        with patch.object(offset_commit, "_id_of", return_value=b""):
            await commit(served, 8)
    async with serving_groups(disk) as served:
        await loaded(served)
        (topic,) = await committed(served, 8)
        assert topic.partitions[0].committed_offset == 42
        load = Shard.load

        async def waiting(self: Shard[Any]) -> None:
            await may_load.wait()
            await load(self)

        monkeypatch.setattr(Shard, "load", waiting)
        for shard in groups_of(served.node).shards:
            shard._begin_anew()
        await served.node.controller.delete(served.node.topics.named("t"))
        await served.create("t", partitions=2)
        may_load.set()
        await loaded(served)
        (topic,) = await committed(served, 8)
        assert topic.partitions[0].committed_offset == -1


@pytest.mark.parametrize("version", [8, 9])
async def test_offsets_of_many_groups_are_fetched_at_once(served: Served, version: int) -> None:
    await served.create("t", partitions=2)
    await found(served)
    await commit(served, 8)
    asked = [fetching.OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    groups = [
        fetching.OffsetFetchRequestGroup(group_id=GROUP, topics=asked),
        fetching.OffsetFetchRequestGroup(group_id="nobody", topics=asked),
        fetching.OffsetFetchRequestGroup(group_id=GROUP, topics=None),
    ]
    # Without transactions every offset is stable.
    request = fetching.OffsetFetchRequest(groups=groups, require_stable=True)
    response = await served.call(request, version)
    assert [(one.group_id, one.error_code) for one in response.groups] == [
        (GROUP, 0),
        ("nobody", 0),
        (GROUP, 0),
    ]
    found_offsets = [one.topics[0].partitions[0].committed_offset for one in response.groups]
    assert found_offsets == [42, -1, 42]


async def test_offsets_are_forgotten_on_request(served: Served) -> None:
    await served.create("t", partitions=2)
    await found(served)
    await commit(served, 8)
    request = forgetting.OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            forgetting.OffsetDeleteRequestTopic(
                name="t",
                partitions=[forgetting.OffsetDeleteRequestPartition(partition_index=0)],
            )
        ],
    )
    response = await served.call(request, 0)
    assert (response.error_code, response.topics[0].partitions[0].error_code) == (0, 0)
    response = await served.call(request, 0)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_of_what_is_not_there_cannot_be_forgotten(served: Served) -> None:
    await served.create("t", partitions=2)
    await found(served)
    await commit(served, 8)

    async def errors(group: str, *topics: str) -> list[int]:
        request = forgetting.OffsetDeleteRequest(
            group_id=group,
            topics=[
                forgetting.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[
                        forgetting.OffsetDeleteRequestPartition(partition_index=number)
                        for number in (0, 7)
                    ],
                )
                for name in topics
            ],
        )
        response = await served.call(request, 0)
        assert response.error_code == 0
        return [one.error_code for topic in response.topics for one in topic.partitions]

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await errors(GROUP, "u", "t") == [unknown, unknown, ErrorCode.NONE, unknown]
    assert await errors("nobody", "u") == [unknown, unknown]


# Whole groups


async def test_groups_are_listed_described_and_deleted(served: Served) -> None:
    await served.create("t", partitions=2)
    await found(served)
    await commit(served, 8)
    (one,) = (await listed(served)).groups
    assert (one.group_id, one.group_state, one.group_type) == (GROUP, "Empty", "classic")
    assert (await listed(served, states_filter=["stable"])).groups == []
    assert (await listed(served, types_filter=["consumer"])).groups == []
    request = describing.DescribeGroupsRequest(groups=[GROUP, "nobody"])
    known, unknown = (await served.call(request, 6)).groups
    assert (known.error_code, known.group_state) == (0, "Empty")
    assert (unknown.error_code, unknown.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    older = (await served.call(request, 5)).groups[1]
    assert (older.error_code, older.group_state) == (0, "Dead")
    doomed = deleting.DeleteGroupsRequest(groups_names=[GROUP, "nobody"])
    results = (await served.call(doomed, 2)).results
    assert [one.error_code for one in results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert (await listed(served)).groups == []


@pytest.mark.parametrize("version", range(7))
async def test_a_member_is_described_with_its_share(served: Served, version: int) -> None:
    await found(served)
    member = await member_of(served, 9)
    share = syncing.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"mine")
    await served.call(
        syncing.SyncGroupRequest(
            group_id=GROUP, generation_id=1, member_id=member.member_id, assignments=[share]
        ),
        5,
    )
    request = describing.DescribeGroupsRequest(groups=[GROUP])
    (group,) = (await served.call(request, version)).groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (one,) = group.members
    assert (one.client_id, one.client_host) == ("test", "/10.0.0.9")
    assert (bytes(one.member_metadata), bytes(one.member_assignment)) == (b"s", b"mine")


# The topic behind it


async def test_nobody_but_the_node_makes_or_writes_the_topic_of_the_state(served: Served) -> None:
    with pytest.raises(InternalTopic, match="node's own"):
        await served.node.controller.create(NewTopic(name="__consumer_offsets"))
    await found(served)
    topic = served.node.topics.named("__consumer_offsets")
    assert topic.config.cleanup_policy == {"compact"}
    assert not topic.config.remote_storage_enable
    with pytest.raises(InternalTopic):
        await served.node.controller.add_partitions(topic, 60)


async def test_the_topic_of_the_state_is_neither_deleted_nor_turned_into_another(
    served: Served,
) -> None:
    """Offsets would go: with the topic, or with segments that leave the disk."""
    await found(served)
    topic, controller = served.node.topics.named("__consumer_offsets"), served.node.controller
    with pytest.raises(InternalTopic):
        await controller.delete(topic)
    with pytest.raises(InvalidConfig, match="stays compacted"):
        await controller.replace_configs(topic, {"segment.bytes": "1048576"})
    await controller.replace_configs(
        topic, {"segment.bytes": "1048576", "cleanup.policy": "compact"}
    )
    assert topic.config.cleanup_policy == {"compact"}
