"""Health, readiness and state of a node."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.http.nodes import running, settings
from tests.http.support import calling, hello, until
from tierlog.broker.node import Node
from tierlog.client import NewRecord
from tierlog.env import local_env
from tierlog.http import HttpServer, NodeView, Phase, node_router
from tierlog.server import Server
from tierlog.sim import SimWorld, simulate


async def test_a_node_that_serves_is_alive_and_ready(tmp_path: Path) -> None:
    async with running(local_env(), settings(str(tmp_path / "data"))) as node:
        for path, body in (("/healthz", b"ok\n"), ("/readyz", b"ready\n")):
            answer = await node.get(path)
            assert (answer.status, answer.body) == (200, body)
        missing = await node.get("/")
        assert missing.status == 404
        assert json.loads(missing.body)["routes"] == [
            "/explain/",
            "/healthz",
            "/holds",
            "/lag",
            "/metrics",
            "/prewarm",
            "/readyz",
            "/state",
        ]


async def test_before_it_serves_a_node_says_that_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()
    server = Server(local_env(), settings(str(tmp_path / "data")))
    start = Node.start

    async def slowly(node: Node) -> None:
        await go_on.wait()
        await start(node)

    monkeypatch.setattr(Node, "start", slowly)
    starting = asyncio.ensure_future(server.start())
    await until(lambda: server.http is not None and "http" in server.view.addresses)
    host, _, port = server.view.addresses["http"].rpartition(":")
    async with calling(host, int(port)) as caller:
        assert (await caller.ask("/healthz")).status == 200
        answer = await caller.ask("/readyz")
        assert answer.status == 503
        assert json.loads(answer.body)["phase"] == "starting"
        assert (await caller.ask("/metrics")).status == 200
        assert json.loads((await caller.ask("/state")).body)["phase"] == "starting"
        go_on.set()
        await starting
        assert (await caller.ask("/readyz")).status == 200
        server.view.phase = Phase.DRAINING
        answer = await caller.ask("/readyz")
        assert (answer.status, json.loads(answer.body)["phase"]) == (503, "draining")
        assert (await caller.ask("/healthz")).status == 200
    await server.stop()


async def test_a_broken_log_directory_is_neither_alive_nor_ready(tmp_path: Path) -> None:
    async with running(local_env(), settings(str(tmp_path / "data"))) as node:
        node.node.directory.syncs.latch(OSError(5, "Input/output error"))
        for path in ("/healthz", "/readyz"):
            answer = await node.get(path)
            assert answer.status == 503
            problem = json.loads(answer.body)
            assert problem["phase"] == "broken"
            assert "Input/output error" in problem["detail"]
        assert "Input/output error" in (await node.state())["fault"]


async def test_state_tells_the_node_down_to_the_partition(tmp_path: Path) -> None:
    async with running(local_env(), settings(str(tmp_path / "data"))) as node:
        await node.create("t", partitions=2)
        async with node.client() as client:
            await client.produce("t", 1, [NewRecord(b"1"), NewRecord(b"2")])
            state = await node.state()
        assert (state["node_id"], state["cluster_id"]) == (1, node.node.cluster_id)
        assert state["version"] == node.server.view.version
        assert (state["phase"], state["fault"]) == ("serving", None)
        assert state["uptime_s"] > 0
        assert state["addresses"]["kafka"] == "{}:{}".format(*node.kafka)
        assert state["addresses"]["http"] == "{}:{}".format(*node.http)
        assert state["store"].endswith("-store")
        assert 0 < state["disk"]["refuse_below_bytes"] < state["disk"]["total_bytes"]
        assert state["connections"]["open"] >= 1
        assert state["requests"]["Produce"]["requests"] == 1
        (topic,) = state["topics"]
        assert (topic["name"], topic["produced_records"]) == ("t", 2)
        idle, used = topic["partitions"]
        assert (idle["index"], idle["log_end"], idle["bytes"]) == (0, 0, 0)
        size = used.pop("bytes")
        assert size == topic["produced_bytes"] > 0
        assert used == {
            "index": 1,
            "leader_epoch": 0,
            "log_start": 0,
            "local_start": 0,
            "uploaded_end": 0,
            "high_watermark": 2,
            "log_end": 2,
            "durable_end": 2,
            "cleaned_to": 0,
            "segments": 1,
            "cold_bytes": 0,
            "cold_segments": 0,
            "backlog_bytes": 0,
            "backlog_segments": 0,
            "upload_lag_ms": used["upload_lag_ms"],
            "upload_error": None,
            "garbage_error": None,
            "fence": None,
        }


def test_a_node_is_asked_in_the_simulated_world() -> None:
    async def scenario(world: SimWorld) -> None:
        env = world.env("node")

        async def work() -> None:
            async with running(env, settings("/data", host="node")) as node:
                await node.create("t", partitions=3)
                await asyncio.sleep(10)
                state = await node.state()
                assert 10 <= state["uptime_s"] < 11
                assert len(state["topics"][0]["partitions"]) == 3
                assert (await node.get("/readyz")).status == 200

        await world.start("node", work(), what="node")

    simulate(scenario, seed=1)


async def test_a_router_takes_more_routes(tmp_path: Path) -> None:
    async with running(local_env(), settings(str(tmp_path / "data"))) as node:
        view = NodeView(node.node, version="x")
        router = node_router(view)
        assert router.paths == [
            "/explain/",
            "/healthz",
            "/holds",
            "/lag",
            "/metrics",
            "/prewarm",
            "/readyz",
            "/state",
        ]
        router.add("GET", "/hello", hello)
        with pytest.raises(AssertionError, match="has a handler already"):
            router.add("GET", "/metrics", hello)
        server = HttpServer(router, local_env())
        async with calling(*await server.start("127.0.0.1", 0)) as caller:
            assert (await caller.ask("/hello")).status == 200
            assert (await caller.ask("/readyz")).status == 503
        await server.close()
