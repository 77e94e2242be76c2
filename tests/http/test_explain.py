"""`/explain`: what a node says of its segments, in answers of bounded size."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.cold.tiering import Door, play
from tests.http.nodes import RunningNode, running, settings
from tierlog import server
from tierlog.broker.controller import NewTopic
from tierlog.client import NewRecord
from tierlog.http import explain
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket

COLD = {"segment.ms": "1000", "local.retention.ms": "60000"}
Scenario = Callable[[RunningNode, Door], Awaitable[None]]


@pytest.fixture
def with_node(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], None]:
    """Play a scenario with a node beside a bucket, in virtual time."""

    def run(scenario: Scenario) -> None:
        async def begin(world: SimWorld, bucket: SimBucket) -> None:
            env = world.env("node")
            door = Door(bucket, env)
            monkeypatch.setattr(server, "open_store", lambda *_: door)

            async def work() -> None:
                async with running(env, settings("/data", host="node")) as node:
                    await scenario(node, door)

            await world.start("node", work(), what="node")

        play(begin)

    return run


async def make(node: RunningNode, name: str = "t", *, partitions: int = 1, **more: str) -> None:
    configs = COLD | {key.replace("_", "."): value for key, value in more.items()}
    await node.node.controller.create(NewTopic(name=name, partitions=partitions, configs=configs))


async def produce(node: RunningNode, name: str, *values: bytes) -> None:
    """Each in a segment of its own."""
    async with node.client() as client:
        for value in values:
            await client.produce(name, 0, [NewRecord(value)])
            await asyncio.sleep(3)


async def told(node: RunningNode, path: str) -> Any:
    answer = await node.get(path)
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "application/json"
    return json.loads(answer.body)


def test_segments_are_told_with_their_states_reasons_and_times(
    with_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make(node)
        await produce(node, "t", b"a", b"b")
        await asyncio.sleep(70)
        await produce(node, "t", b"c")
        answer = await told(node, "/explain/t/0")
        assert (answer["topic"], answer["source"]) == ("t", "node")
        assert answer["rules"]["segment_ms"] == 1000
        assert answer["store"]["away_since_ms"] is None
        (partition,) = answer["partitions"]
        rows = partition["rows"]
        assert [(row["state"], row["base"], row["segments"]) for row in rows] == [
            ("dropped", 0, 2),
            ("published", 2, 1),
            ("active", 3, 1),
        ]
        drop, expire = rows[1]["reasons"]
        assert (drop["step"], drop["why"]) == ("drop", "local.retention.ms")
        assert 0 < drop["at_ms"] - answer["now_ms"] <= 60_000
        assert (expire["step"], expire["why"]) == ("expire", "retention.ms")
        assert partition["cold_segments"] == 3
        assert partition["uploaded_end"] == partition["high_watermark"] == 3

    with_node(scenario)


def test_a_store_that_is_away_is_why_segments_wait(with_node: Callable[[Scenario], None]) -> None:
    async def scenario(node: RunningNode, door: Door) -> None:
        await make(node)
        await produce(node, "t", b"a")
        door.is_closed = True
        await produce(node, "t", b"b")
        await asyncio.sleep(100)
        answer = await told(node, "/explain/t")
        assert answer["store"]["error"] == "the store is away"
        assert answer["now_ms"] - answer["store"]["away_since_ms"] > 90_000
        cold, waiting, _ = answer["partitions"][0]["rows"]
        assert waiting["state"] == "sealed"
        (reason,) = waiting["reasons"]
        assert reason["why"] == "store away"
        assert 0 <= reason["at_ms"] - answer["now_ms"] <= 60_000
        assert cold["reasons"][0]["why"] == "store away"  # It may not leave the disk, either.

    with_node(scenario)


def test_every_segment_is_told_in_answers_that_go_on(
    with_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make(node)
        await produce(node, "t", *(b"%d" % number for number in range(5)))
        whole = (await told(node, "/explain/t/0?after=0"))["partitions"][0]
        assert [row["base"] for row in whole["rows"]] == [0, 1, 2, 3, 4, 5]
        assert whole["next_after"] is None
        rest = (await told(node, "/explain/t/0?after=4"))["partitions"][0]
        assert [row["base"] for row in rest["rows"]] == [4, 5]

    with_node(scenario)


def test_a_topic_of_many_partitions_is_told_some_at_a_time(
    with_node: Callable[[Scenario], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "PARTITIONS_MAX", 2)

    async def scenario(node: RunningNode, _: Door) -> None:
        await make(node, partitions=5)
        seen: list[list[int]] = []
        first: int | None = 0
        while first is not None:
            answer = await told(node, f"/explain/t?from={first}")
            seen.append([one["partition"] for one in answer["partitions"]])
            first = answer["next_partition"]
        assert seen == [[0, 1], [2, 3], [4]]
        assert answer["partition_count"] == 5

    with_node(scenario)


def test_a_topic_that_is_not_tiered_says_so(with_node: Callable[[Scenario], None]) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make(node, remote_storage_enable="false")
        await produce(node, "t", b"a")
        sealed, _ = (await told(node, "/explain/t/0"))["partitions"][0]["rows"]
        assert (sealed["state"], sealed["reasons"][0]["why"]) == ("sealed", "remote.storage.enable")

    with_node(scenario)


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/explain/nope", 404, "there is no topic 'nope'"),
        ("/explain/", 404, "there is no topic ''"),
        ("/explain/t/1", 404, "t has partitions 0 to 0, no '1'"),
        ("/explain/t/x", 404, "t has partitions 0 to 0, no 'x'"),
        ("/explain/t/0/0", 404, "t has partitions 0 to 0, no '0/0'"),
        ("/explain/t/0?after=-1", 400, "after is '-1'; it must be a number from 0 on"),
        ("/explain/t?from=x", 400, "from is 'x'; it must be a number from 0 on"),
    ],
)
def test_what_is_not_there_or_makes_no_sense_is_told(
    with_node: Callable[[Scenario], None], path: str, status: int, sentence: str
) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make(node)
        answer = await node.get(path)
        assert (answer.status, json.loads(answer.body)["detail"]) == (status, sentence)

    with_node(scenario)


def test_a_name_with_odd_characters_is_decoded(with_node: Callable[[Scenario], None]) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make(node, "a.b_c-d")
        assert (await told(node, "/explain/a%2Eb_c-d"))["topic"] == "a.b_c-d"

    with_node(scenario)
