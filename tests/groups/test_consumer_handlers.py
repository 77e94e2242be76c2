"""The APIs of consumer groups (KIP-848), as a client meets them over the wire."""

import asyncio
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.broker.support import Served
from tests.groups.conftest import SETTINGS, serving_groups
from tests.groups.test_handlers import found, joined, listed, loaded
from tierlog.config import InvalidConfig, NodeSettings
from tierlog.groups import patterns
from tierlog.groups.consumer import ConsumerGroup
from tierlog.groups.service import GroupCoordinator, groups_of, limits_of
from tierlog.sim.disk import SimDisk
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages import consumer_group_describe as describing
from tierlog.wire.messages import consumer_group_heartbeat as beating
from tierlog.wire.messages import delete_groups as deleting
from tierlog.wire.messages import describe_groups as describing_classic
from tierlog.wire.messages import heartbeat as beating_classic
from tierlog.wire.messages import offset_commit as committing
from tierlog.wire.messages import offset_fetch as fetching

GROUP = "g"


async def beat(served: Served, epoch: int = 0, *, version: int = 1, **more: Any) -> Any:
    usual: dict[str, Any] = {"group_id": GROUP, "member_id": "m", "member_epoch": epoch}
    if epoch == 0:
        usual |= {
            "rebalance_timeout_ms": 5_000,
            "subscribed_topic_names": ["t"],
            "topic_partitions": [],
        }
    return await served.call(beating.ConsumerGroupHeartbeatRequest(**{**usual, **more}), version)


async def member(served: Served) -> Any:
    await served.create("t", partitions=2)
    await found(served)
    return await beat(served)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_comes_is_assigned_beats_and_leaves(served: Served, version: int) -> None:
    await served.create("t", partitions=2)
    await found(served)
    first = await beat(served, version=version, member_id="" if version == 0 else "m")
    assert (first.error_code, first.member_epoch, first.heartbeat_interval_ms) == (0, 1, 5_000)
    (share,) = first.assignment.topic_partitions
    assert (share.topic_id, share.partitions) == (served.node.topics.by_name["t"].id, [0, 1])
    names = {"member_id": first.member_id, "version": version}
    again = await beat(served, 1, **names)
    assert (again.error_code, again.member_epoch, again.assignment) == (0, 1, None)
    left = await beat(served, -1, **names)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert (await beat(served, 1, **names)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_heartbeat_that_changes_nothing_is_answered_where_it_is_read(
    served: Served,
) -> None:
    """Without a task, a timer or a record."""
    await member(served)
    ends = [one._partition.log.log_end for one in groups_of(served.node).shards]
    timers = [one._timer for one in groups_of(served.node).shards]
    request = beating.ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=1)
    assert isinstance(served.send(request, 1), list)
    assert [one._partition.log.log_end for one in groups_of(served.node).shards] == ends
    assert [one._timer for one in groups_of(served.node).shards] == timers


async def test_a_heartbeat_waits_for_what_is_not_durable_yet(served: Served) -> None:
    await served.create("t", partitions=2)
    await found(served)
    coming = served.send(
        beating.ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        ),
        1,
    )
    request = beating.ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=1)
    after_it = served.send(request, 1)
    assert isinstance(coming, asyncio.Future)
    assert isinstance(after_it, asyncio.Future)
    await coming
    await after_it


@pytest.mark.parametrize("limit", ["PATTERNS_MAX", "NAMES_MAX"])
async def test_a_group_with_more_patterns_than_are_remembered_is_answered_after_a_change_of_topics(
    served: Served, limit: str
) -> None:
    """All of them are needed at once; those that were matched first must not go meanwhile."""
    await served.create("t1")
    await found(served)
    with patch.object(patterns, limit, 2):
        for number in range(6):
            await beat(
                served,
                member_id=f"m{number}",
                subscribed_topic_names=[],
                subscribed_topic_regex=f"t.{{1,{number + 1}}}",
            )
        await served.create("t2")
        group = groups_of(served.node).shard_of(GROUP).machine.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        async with asyncio.timeout(5):
            told = await beat(
                served, group.members["m0"].epoch, member_id="m0", topic_partitions=[]
            )
        assert told.error_code == 0
        assert group.epoch == 7
        # Somebody who goes and somebody who comes change the epoch without a change of topics.
        async with asyncio.timeout(5):
            await beat(served, -1, member_id="m5")
            told = await beat(served, told.member_epoch, member_id="m0", topic_partitions=[])
        assert told.error_code == 0


async def test_topics_that_come_while_a_pattern_is_matched_are_found(served: Served) -> None:
    for name in ("t1", "t2", "u"):
        await served.create(name, partitions=1)
    await found(served)
    with patch.object(patterns, "NAMES_A_STEP", 1):
        request = beating.ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=[],
            subscribed_topic_regex="t.",
            topic_partitions=[],
        )
        answer = served.send(request, 1)
        assert isinstance(answer, asyncio.Future)
        await asyncio.sleep(0)
        assert not answer.done()
        late = served.node.topics.by_name["u"]
        served.node.topics.remove(late)
        late.name = "t3"
        served.node.topics.add(late)
        await answer
    beaten = await beat(
        served, 1, topic_partitions=[], subscribed_topic_names=[], rebalance_timeout_ms=5_000
    )
    assert beaten.error_code == 0
    ids = {one.topic_id for one in beaten.assignment.topic_partitions}
    assert ids == {served.node.topics.by_name[name].id for name in ("t1", "t2", "t3")}


@pytest.mark.parametrize(
    ("changes", "epoch", "code"),
    [
        ({"group_id": ""}, 0, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, 0, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, 1, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, 0, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, 0, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, 0, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, 0, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": []}, 0, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, 0, ErrorCode.INVALID_REQUEST),
        ({}, -2, ErrorCode.INVALID_REQUEST),
        ({}, -3, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, 0, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, 0, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"group_id": "other"}, 4, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "other"}, 4, ErrorCode.UNKNOWN_MEMBER_ID),
        ({}, 4, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"instance_id": "i"}, -2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_what_cannot_be_is_refused_in_words(
    served: Served, changes: dict[str, Any], epoch: int, code: ErrorCode
) -> None:
    await member(served)
    refused = await beat(served, epoch, **changes)
    assert refused.error_code == code
    assert refused.error_message
    assert refused.assignment is None


async def test_pitfall_19_a_heartbeat_that_comes_too_early_or_too_late_may_be_repeated(
    served: Served,
) -> None:
    await served.create("t", partitions=1)
    early = await beat(served)
    assert early.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await found(served)
    for shard in groups_of(served.node).shards:
        shard.is_loaded = False
    loading = await beat(served)
    assert loading.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for shard in groups_of(served.node).shards:
        shard.is_loaded = True
        shard.close()
    late = await beat(served)
    assert late.error_code == ErrorCode.NOT_COORDINATOR
    for code in (early.error_code, loading.error_code, late.error_code):
        assert ErrorCode(code).retriable  # type: ignore[call-arg]  # by its value, as enums can


async def test_a_group_is_described(served: Served) -> None:
    await member(served)
    request = describing.ConsumerGroupDescribeRequest(
        group_ids=[GROUP, "nobody"], include_authorized_operations=False
    )
    known, unknown = (await served.call(request, 1)).groups
    assert (known.error_code, known.group_state, known.assignor_name) == (0, "Stable", "uniform")
    assert (known.group_epoch, known.assignment_epoch) == (1, 1)
    (one,) = known.members
    assert (one.member_id, one.member_epoch, one.member_type) == ("m", 1, 1)
    assert (one.client_id, one.client_host) == ("test", "/10.0.0.9")
    assert one.subscribed_topic_names == ["t"]
    for share in (one.assignment, one.target_assignment):
        (topic,) = share.topic_partitions
        assert (topic.topic_name, topic.partitions) == ("t", [0, 1])
    assert (unknown.error_code, unknown.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    older = (await served.call(request, 0)).groups[0].members[0]
    assert older.member_type == -1


async def test_a_consumer_group_is_listed_by_its_type_and_is_none_of_the_classic_ones(
    served: Served,
) -> None:
    await member(served)
    (one,) = (await listed(served, types_filter=["Consumer"])).groups
    assert (one.group_id, one.group_state, one.group_type) == (GROUP, "Stable", "consumer")
    assert one.protocol_type == "consumer"
    assert (await listed(served, types_filter=["classic"])).groups == []
    assert (await listed(served, states_filter=["empty"])).groups == []
    request = describing_classic.DescribeGroupsRequest(groups=[GROUP])
    (classic,) = (await served.call(request, 6)).groups
    assert (classic.error_code, classic.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    (older,) = (await served.call(request, 5)).groups
    assert (older.error_code, older.group_state) == (0, "Dead")


async def test_classic_requests_to_a_consumer_group(served: Served) -> None:
    await member(served)
    assert (await joined(served, 9)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    request = beating_classic.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
    assert (await served.call(request, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_group_is_deleted_when_it_is_empty(served: Served) -> None:
    await member(served)
    doomed = deleting.DeleteGroupsRequest(groups_names=[GROUP])
    (one,) = (await served.call(doomed, 2)).results
    assert one.error_code == ErrorCode.NON_EMPTY_GROUP
    await beat(served, -1)
    (one,) = (await served.call(doomed, 2)).results
    assert one.error_code == 0
    assert (await listed(served)).groups == []


async def commit(served: Served, epoch: int, version: int, member_id: str = "m") -> int:
    topic = served.node.topics.by_name["t"]
    names: dict[str, Any] = {"topic_id": topic.id} if version >= 10 else {"name": "t"}
    each = committing.OffsetCommitRequestPartition(
        partition_index=1, committed_offset=9, committed_metadata=None
    )
    request = committing.OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[committing.OffsetCommitRequestTopic(**names, partitions=[each])],
    )
    code: int = (await served.call(request, version)).topics[0].partitions[0].error_code
    return code


async def fetch(served: Served, epoch: int, version: int, member_id: str | None = "m") -> Any:
    topic = served.node.topics.by_name["t"]
    wanted = fetching.OffsetFetchRequestTopics(name="t", topic_id=topic.id, partition_indexes=[1])
    group = fetching.OffsetFetchRequestGroup(
        group_id=GROUP, topics=[wanted], member_id=member_id, member_epoch=epoch
    )
    (answer,) = (await served.call(fetching.OffsetFetchRequest(groups=[group]), version)).groups
    return answer


@pytest.mark.parametrize("version", [9, 10])
async def test_pitfall_18_offsets_of_members_are_held_against_their_epoch(
    served: Served, version: int
) -> None:
    await member(served)
    assert await commit(served, 1, version) == 0
    assert await commit(served, 2, version) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit(served, 1, version, "other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit(served, 1, 8) == ErrorCode.UNSUPPORTED_VERSION
    answer = await fetch(served, 1, version)
    assert answer.topics[0].partitions[0].committed_offset == 9
    assert (await fetch(served, 2, version)).error_code == ErrorCode.STALE_MEMBER_EPOCH
    assert (await fetch(served, 1, version, "other")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await fetch(served, -1, version, None)).error_code == 0


async def test_topics_that_come_grow_and_go_reach_the_members(served: Served) -> None:
    await found(served)
    assert (await beat(served)).assignment.topic_partitions == []
    await served.create("t", partitions=1)
    (share,) = (await beat(served, 1, topic_partitions=[])).assignment.topic_partitions
    assert share.partitions == [0]
    await served.node.controller.add_partitions(served.node.topics.named("t"), 3)
    owned = [beating.TopicPartitions(topic_id=share.topic_id, partitions=[0])]
    (share,) = (await beat(served, 2, topic_partitions=owned)).assignment.topic_partitions
    assert share.partitions == [0, 1, 2]
    await served.node.controller.delete(served.node.topics.named("t"))
    assert (await beat(served, 3, topic_partitions=owned)).assignment.topic_partitions == []


async def test_a_group_outlives_the_node() -> None:
    disk = SimDisk()
    async with serving_groups(disk) as served:
        await member(served)
        await commit(served, 1, 9)
    async with serving_groups(disk) as served:
        await loaded(served)
        assert (await beat(served, 1)).error_code == 0
        assert await commit(served, 1, 9) == 0


def test_settings_of_consumer_groups_reach_the_machine(served: Served) -> None:
    served.node.settings = replace(
        SETTINGS,
        group_consumer_session_timeout_ms=9_000,
        group_consumer_heartbeat_interval_ms=300,
        group_consumer_max_size=7,
        group_consumer_assignors="range,uniform",
    )
    limits = limits_of(served.node)
    assert (limits.consumer_session_ms, limits.consumer_heartbeat_ms) == (9_000, 300)
    assert (limits.consumer_size_max, limits.consumer_assignors) == (7, ("range", "uniform"))
    assert GroupCoordinator(served.node).consumer_assignors == ("range", "uniform")


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"group_consumer_assignors": "sticky"}, "uniform"),
        ({"group_consumer_heartbeat_interval_ms": 45_000}, "more than once in a session"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidConfig, match=word):
        NodeSettings(**wrong)
