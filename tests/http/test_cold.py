"""What a node says of its cold tier: metrics, state and health, with the store and without."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.cold.tiering import Door, play
from tests.http.nodes import RunningNode, of, running, settings
from tierlog import server
from tierlog.broker.controller import NewTopic
from tierlog.client import BrokerError, NewRecord
from tierlog.cold.refusals import ForeignIncarnation
from tierlog.fetchproxy.damage import CORRUPT_TELLS
from tierlog.sim import SimWorld
from tierlog.sim.bucket import SimBucket

COLD = {"local.retention.ms": "0", "segment.ms": "1000"}
Scenario = Callable[[RunningNode, Door], Awaitable[None]]


@pytest.fixture
def cold_node(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scenario], None]:
    """Play a scenario with a node beside a bucket, in virtual time."""

    def run(scenario: Scenario, **others: object) -> None:
        async def begin(world: SimWorld, bucket: SimBucket) -> None:
            env = world.env("node")
            door = Door(bucket, env)
            monkeypatch.setattr(server, "open_store", lambda *_: door)

            async def work() -> None:
                async with running(env, settings("/data", host="node", **others)) as node:
                    await scenario(node, door)

            await world.start("node", work(), what="node")

        play(begin)

    return run


async def produce(node: RunningNode, name: str, *values: bytes) -> None:
    async with node.client() as client:
        for value in values:
            await client.produce(name, 0, [NewRecord(value)])


async def make_cold(node: RunningNode, name: str = "t") -> None:
    await node.node.controller.create(NewTopic(name=name, partitions=2, configs=COLD))
    await produce(node, name, b"a" * 1000, b"b" * 1000)
    await asyncio.sleep(10)


def test_uploads_drops_and_cold_reads_are_counted(cold_node: Callable[[Scenario], None]) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make_cold(node)
        async with node.client() as client:
            fetched = await client.fetch("t", 0, 0)
            assert len(fetched.batches) > 2000
        samples = await node.samples()
        assert of(samples, "tierlog_tier_ready") == 1
        assert of(samples, "tierlog_tier_refused") == 0
        assert of(samples, "tierlog_tier_partitions") == 2
        assert of(samples, "tierlog_tier_uploaded_segments_total") == 1
        assert of(samples, "tierlog_tier_publishes_total") == 1
        assert of(samples, "tierlog_tier_dropped_segments_total") == 1
        assert of(samples, "tierlog_tier_dropped_bytes_total") > 2000
        size = of(samples, "tierlog_tier_uploaded_bytes_total")
        assert of(samples, "tierlog_topic_cold_bytes", topic="t") == size > 2000
        assert of(samples, "tierlog_topic_cold_segments", topic="t") == 1
        assert of(samples, "tierlog_topic_upload_lag_seconds", topic="t") == 0
        assert of(samples, "tierlog_topic_upload_backlog_bytes", topic="t") == 0
        assert of(samples, "tierlog_topic_log_bytes", topic="t") == 0
        assert of(samples, "tierlog_cold_reads_total") >= 1
        assert of(samples, "tierlog_cold_read_bytes_total") > 2000
        assert of(samples, "tierlog_cold_gets_total", what="index") == 1
        assert of(samples, "tierlog_cache_bytes_max") > of(samples, "tierlog_cache_bytes")
        assert of(samples, "tierlog_store_bytes_total", kind="put") > size
        assert of(samples, "tierlog_store_requests_total", kind="head") >= 2
        assert of(samples, "tierlog_store_seconds_total", kind="get") > 0
        assert of(samples, "tierlog_store_errors_total", kind="get") == 0

    cold_node(scenario)


def test_damage_that_a_consumer_meets_is_a_finding_that_explain_shows_until_it_expired(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, door: Door) -> None:
        await make_cold(node)
        ((key, item),) = (one for one in door._shelf.items.items() if "/seg/" in one[0])
        data = item.data[:500] + bytes([item.data[500] ^ 1]) + item.data[501:]
        door._shelf.items[key] = replace(item, data=data)
        assert of(await node.samples(), "tierlog_scrub_findings") == 0
        async with node.client() as client:
            for _ in range(2 * CORRUPT_TELLS):
                with suppress(BrokerError):
                    await client.fetch("t", 0, 0)
        await asyncio.sleep(5)
        samples = await node.samples()
        assert of(samples, "tierlog_cold_corrupt_total") > 0
        assert of(samples, "tierlog_scrub_findings") == 1
        for path in ("/explain/t/0", "/explain/t/0?after=0"):
            (told,) = json.loads((await node.get(path)).body)["partitions"]
            (problem,) = told["problems"]
            assert problem.startswith(f"damaged: t-0, offsets [0, 2): object-wrong, {key}: ")
        (sound,) = json.loads((await node.get("/explain/t/1")).body)["partitions"]
        assert sound["problems"] == []
        async with node.client() as client:
            await client.delete_records("t", {0: 2})
        await asyncio.sleep(70)
        assert of(await node.samples(), "tierlog_scrub_findings") == 0

    cold_node(scenario)


def test_the_state_tells_where_the_records_of_a_partition_are(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make_cold(node)
        state = await node.state()
        assert (state["tier"]["is_ready"], state["tier"]["trouble"]) == (True, None)
        assert state["tier"]["requests"]["put"]["requests"] > 0
        assert state["tier"]["uploads"]["uploaded_segments"] == 1
        (topic,) = state["topics"]
        used, idle = topic["partitions"]
        assert topic["is_tiered"]
        assert (used["log_start"], used["local_start"], used["uploaded_end"]) == (0, 2, 2)
        assert (used["cold_segments"], used["backlog_bytes"], used["upload_error"]) == (1, 0, None)
        assert (idle["uploaded_end"], idle["cold_bytes"]) == (0, 0)

    cold_node(scenario)


def test_a_node_without_its_store_is_ready_and_says_what_waits(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, door: Door) -> None:
        await make_cold(node)
        assert (await node.get("/healthz")).body == b"ok\n"
        door.is_closed = True
        await produce(node, "t", b"c" * 500)
        await asyncio.sleep(300)
        ready, health = await node.get("/readyz"), await node.get("/healthz")
        assert (ready.status, ready.body) == (200, b"ready\n")
        assert (health.status, health.body) == (200, b"ok; uploads wait: the store is away\n")
        samples = await node.samples()
        assert of(samples, "tierlog_tier_ready") == 0
        assert of(samples, "tierlog_tier_failures_total") > 2
        assert of(samples, "tierlog_topic_upload_backlog_segments", topic="t") == 1
        assert of(samples, "tierlog_topic_upload_backlog_bytes", topic="t") > 500
        assert 290 < of(samples, "tierlog_topic_upload_lag_seconds", topic="t") < 310
        assert sum(value for key, value in samples.items() if "store_errors" in key[0]) > 2
        state = await node.state()
        assert state["tier"]["trouble"] == "uploads wait: the store is away"
        assert state["topics"][0]["partitions"][0]["upload_lag_ms"] > 290_000
        door.is_closed = False
        await asyncio.sleep(100)
        assert (await node.get("/healthz")).body == b"ok\n"
        assert (await node.state())["topics"][0]["partitions"][0]["upload_error"] is None

    cold_node(scenario)


def test_a_bucket_that_is_refused_is_told_and_what_waits_is_counted_on(
    cold_node: Callable[[Scenario], None],
) -> None:
    async def scenario(node: RunningNode, _: Door) -> None:
        await make_cold(node)
        assert node.node.tiering is not None
        tier = node.node.tiering.tier
        life = tier.membership.keeper.incarnation
        why = ForeignIncarnation("HEAD", mine=life, found=life)
        await produce(node, "t", b"c")
        tier._refuse(why)
        await asyncio.sleep(100)
        health = await node.get("/healthz")
        assert health.status == 200
        assert health.body.startswith(b"ok; nothing is uploaded any more: ")
        samples = await node.samples()
        assert of(samples, "tierlog_tier_refused") == 1
        assert of(samples, "tierlog_topic_upload_lag_seconds", topic="t") > 90

    cold_node(scenario)


def test_uploads_keep_to_the_rate_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    async def begin(world: SimWorld, bucket: SimBucket) -> None:
        env = world.env("node")
        monkeypatch.setattr(server, "open_store", lambda *_: Door(bucket, env))
        rate = {"remote_log_manager_copy_max_bytes_per_second": 50_000}

        async def work() -> None:
            async with running(env, settings("/data", host="node", **rate)) as node:
                config = {**COLD, "segment.bytes": "1100000", "max.message.bytes": "1100000"}
                await node.node.controller.create(NewTopic(name="t", partitions=1, configs=config))
                assert node.node.tiering is not None
                stats = node.node.tiering.tier.stats
                for _ in range(4):
                    await produce(node, "t", bytes(1_060_000))
                await asyncio.sleep(30)
                assert stats.uploaded_segments <= 2
                await asyncio.sleep(90)
                assert stats.uploaded_segments == 4

        await world.start("node", work(), what="node")

    play(begin)
