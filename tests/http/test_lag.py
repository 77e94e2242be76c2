"""`/lag` and the metrics of groups: what a node says of how far behind they are."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from tests.cold.tiering import Door, play
from tests.http.nodes import RunningNode, of, running, settings
from tierlog import server
from tierlog.client import CommittedOffset, NewRecord, TopicPartition
from tierlog.groups.service import groups_of
from tierlog.http import groupfamilies, lag
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket

Scenario = Callable[[RunningNode], Awaitable[None]]


@pytest.fixture
def with_node(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], None]:
    """A node with ten records in a topic, in virtual time."""

    def run(scenario: Scenario) -> None:
        async def begin(world: SimWorld, bucket: SimBucket) -> None:
            env = world.env("node")
            monkeypatch.setattr(server, "open_store", lambda *_: Door(bucket, env))

            async def work() -> None:
                wanted = settings("/data", host="node", offsets_topic_num_partitions=2)
                async with running(env, wanted) as node:
                    await node.create("t")
                    async with node.client() as client:
                        await client.produce("t", 0, [NewRecord(b"x")] * 10)
                    await scenario(node)

            await world.start("node", work(), what="node")

        play(begin)

    return run


async def commit(node: RunningNode, **offsets: int) -> None:
    """By group; and the numbers are new."""
    async with node.client() as client:
        for group, offset in offsets.items():
            place = TopicPartition("t", 0)
            await client.commit_offsets(group, {place: CommittedOffset(offset)})
    await asyncio.sleep(20)


def test_groups_are_told_with_their_partitions(with_node: Callable[[Scenario], None]) -> None:
    async def scenario(node: RunningNode) -> None:
        await commit(node, g=4, done=10)
        found = json.loads((await node.get("/lag")).body)
        assert [one["group"] for one in found["groups"]] == ["done", "g"]
        assert found["group_count"] == 2
        assert found["next_after"] is None
        one = json.loads((await node.get("/lag?group=g")).body)
        (partition,) = one["partitions"]
        assert (partition["committed"], partition["end"], partition["records"]) == (4, 10, 6)
        assert partition["seconds"] > 19
        assert (one["records"], one["trend"], one["unknown_partitions"]) == (6, "unknown", 0)
        await asyncio.sleep(60)
        one = json.loads((await node.get("/lag?group=g")).body)
        assert (one["records"], one["trend"]) == (6, "stuck")

    with_node(scenario)


def test_a_group_that_is_not_there_is_a_problem(with_node: Callable[[Scenario], None]) -> None:
    async def scenario(node: RunningNode) -> None:
        answer = await node.get("/lag?group=nobody%20knows")
        assert answer.status == 404
        assert "nobody knows" in json.loads(answer.body)["detail"]

    with_node(scenario)


def test_groups_whose_shard_still_loads_are_not_said_to_have_committed_nothing(
    with_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode) -> None:
        await commit(node, g=4)
        groups = groups_of(node.node)
        shard = groups.shard_of("g")
        shard.is_loaded = False
        await asyncio.sleep(20)
        found = json.loads((await node.get("/lag")).body)
        assert (found["groups"], found["shards_loading"]) == ([], 1)
        answer = await node.get("/lag?group=g")
        assert answer.status == 503
        assert "loading" in json.loads(answer.body)["detail"]
        shard.is_loaded = True
        await asyncio.sleep(20)
        found = json.loads((await node.get("/lag")).body)
        assert ([one["group"] for one in found["groups"]], found["shards_loading"]) == (["g"], 0)

    with_node(scenario)


def test_many_groups_come_some_at_a_time(
    with_node: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: RunningNode) -> None:
        monkeypatch.setattr(lag, "GROUPS_MAX", 2)
        await commit(node, a=1, b=2, c=3)
        first = json.loads((await node.get("/lag")).body)
        assert [one["group"] for one in first["groups"]] == ["a", "b"]
        rest = json.loads((await node.get(f"/lag?after={first['next_after']}")).body)
        assert [one["group"] for one in rest["groups"]] == ["c"]
        assert rest["next_after"] is None

    with_node(scenario)


def test_metrics_have_a_line_a_group(with_node: Callable[[Scenario], None]) -> None:
    async def scenario(node: RunningNode) -> None:
        await commit(node, g=4, done=10)
        samples = await node.samples()
        assert of(samples, "tierlog_group_lag_records", group="g") == 6
        assert of(samples, "tierlog_group_lag_seconds", group="g") > 4
        assert of(samples, "tierlog_group_lag_seconds", group="done") == 0
        assert of(samples, "tierlog_group_catch_up_seconds", group="done") == 0
        assert of(samples, "tierlog_group_catch_up_seconds", group="g") == float("inf")
        week = 7 * 24 * 3600
        assert week - 60 < of(samples, "tierlog_group_retention_seconds_left", group="g") < week
        assert of(samples, "tierlog_group_local_seconds_left", group="done") == float("inf")
        told = [key for key in samples if key[0] == "tierlog_group_local_seconds_left"]
        assert len(told) == 1, "of what is not uploaded nobody knows"
        assert of(samples, "tierlog_group_lost_records", group="g") == 0
        assert of(samples, "tierlog_groups_lagging") == 1
        assert of(samples, "tierlog_groups_untold") == 0
        assert of(samples, "tierlog_groups_lag_age_seconds") < 20

    with_node(scenario)


def test_metrics_tell_the_worst_where_there_are_too_many(
    with_node: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: RunningNode) -> None:
        monkeypatch.setattr(groupfamilies, "GROUPS_MAX", 1)
        await commit(node, done=10, g=4, other=10)
        samples = await node.samples()
        told = {dict(labels)["group"] for name, labels in samples if "group_lag_records" in name}
        assert told == {"g"}
        assert of(samples, "tierlog_groups_untold") == 2

    with_node(scenario)
