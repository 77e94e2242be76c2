"""Whole nodes for the tests of the HTTP side."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.http.support import Answer, calling
from tierlog.broker.controller import NewTopic
from tierlog.client import Client
from tierlog.config import NodeSettings
from tierlog.env import Env
from tierlog.server import Ready, Server

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""By name and labels."""


class RunningNode:
    """A node that serves, and how to ask it."""

    def __init__(self, server: Server, ready: Ready, env: Env) -> None:
        assert ready.http is not None
        self.server = server
        self.node = server.node
        self.kafka = ready.kafka
        self.http = ready.http
        self._env = env

    async def get(self, path: str, **headers: str) -> Answer:
        async with calling(*self.http) as caller:
            return await caller.ask(path, **headers)

    async def state(self) -> Any:
        return json.loads((await self.get("/state")).body)

    async def samples(self, *, openmetrics: bool = False) -> Samples:
        accept = "application/openmetrics-text; version=1.0.0" if openmetrics else "text/plain"
        answer = await self.get("/metrics", Accept=accept)
        assert answer.status == 200
        assert ("openmetrics" in answer.headers["Content-Type"]) is openmetrics
        parse = parse_openmetrics if openmetrics else parse_text
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in parse(answer.body.decode())
            for sample in family.samples
        }

    def client(self) -> Client:
        return Client([self.kafka], clock=self._env.clock, rng=self._env.rng)

    async def create(self, name: str, *, partitions: int = 1) -> None:
        await self.node.controller.create(NewTopic(name=name, partitions=partitions))


def of(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def settings(data: str, *, host: str = "127.0.0.1", **others: Any) -> NodeSettings:
    address = f"{host}:0"
    return NodeSettings(
        data=data, listen=address, http=address, store=f"file://{data}-store", **others
    )


@asynccontextmanager
async def running(env: Env, wanted: NodeSettings) -> AsyncIterator[RunningNode]:
    server = Server(env, wanted)
    ready = await server.start()
    try:
        yield RunningNode(server, ready, env)
    finally:
        await server.stop()
