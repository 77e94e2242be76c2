"""Topics with their history in an object store, for real clients: where it goes, when it is there.

with place.running(folder) as node:
    make_cold(node, "orders")      # everything is in the store and nothing on the disk
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode, running
from tests.compat.samples import MARKS as CLIENT_MARKS
from tests.stores.servers import BUCKET, Server
from tierlog.client import Client, Fetched
from tierlog.env import local_env
from tierlog.records.batch import iter_batches

MARKS = [*CLIENT_MARKS, pytest.mark.store]
PLACES = ("folder", "moto", "seaweed", "minio")
PATIENCE_S = 90.0
"""SeaweedFS lets those who lose a race wait for seconds, and every start of a node races."""

TIERED = {"segment_bytes": "2048", "retention_ms": "-1"}
GOES_COLD = {"tierlog_upload_lag_max_ms": "1", "local_retention_ms": "0"}
STAYS_HOT = {"tierlog_upload_lag_max_ms": "3600000", "local_retention_ms": "600000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A store as a node is told of it."""

    name: str
    url: str | None = None
    """None: where a node puts it that is told of none."""
    sets: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def running(
        self, folder: Path, *, sets: Sequence[str] = ()
    ) -> AbstractContextManager[RunningNode]:
        return running(
            folder, sets=[*self.sets, *sets], store=self.url, environment=self.environment
        )


def place_of(server: Server, *, prefix: str) -> Place:
    return Place(
        name=server.name,
        url=f"s3://{BUCKET}/{prefix}",
        sets=[f"s3.endpoint={server.endpoint}"],
        environment=server.environment(),
    )


def create(server: str, topic: str, partitions: int = 1, **more: str) -> None:
    """It has small segments, and stays on the disk until it is made cold."""
    Confluent().admin(server).create(topic, partitions, **{**TIERED, **more})


def create_cold(server: str, topic: str, **more: str) -> None:
    """What is written to it leaves the disk as soon as can be."""
    create(server, topic, 1, **{**GOES_COLD, **more})


def eventually(condition: Callable[[], bool], what: str, *, patience_s: float = PATIENCE_S) -> None:
    """Another process has no event to wait for."""
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until, f"{what} did not come true in {patience_s:.0f} s"
        time.sleep(0.02)


def is_cold(one: Mapping[str, int]) -> bool:
    return one["uploaded_end"] == one["local_start"] == one["high_watermark"] == one["log_end"]


def wait_cold(node: RunningNode, topic: str) -> None:
    """Until all of it is in the store and none on the disk."""
    try:
        eventually(lambda: all(map(is_cold, node.partitions(topic))), f"{topic} is cold")
    except AssertionError as error:
        raise AssertionError(f"{error}: {node.partitions(topic)}\n{node.log()[-4000:]}") from error


def make_cold(node: RunningNode, topic: str) -> None:
    Confluent().admin(node.address).alter(topic, **GOES_COLD)
    wait_cold(node, topic)


@contextmanager
def kept_hot(node: RunningNode, topic: str) -> Iterator[None]:
    """What is written meanwhile stays on the disk."""
    admin = Confluent().admin(node.address)
    admin.alter(topic, **STAYS_HOT)
    yield
    admin.alter(topic, **GOES_COLD)


def fetch_once(server: str, topic: str, offset: int) -> Fetched:
    """What a node answers for partition 0, errors included."""

    async def run() -> Fetched:
        env = local_env()
        host, port = server.split(":")
        async with Client([(host, int(port))], clock=env.clock, rng=env.rng) as client:
            return await client.fetch(topic, 0, offset)

    return asyncio.run(run())


def raw_batches(server: str, topic: str, *, end: int) -> bytes:
    """Partition 0 as it goes over the wire, below an offset."""
    found, offset = bytearray(), 0
    while offset < end:
        answer = fetch_once(server, topic, offset)
        assert not answer.error, answer.error
        for position, header in iter_batches(answer.batches):
            found += answer.batches[position : position + header.size_bytes]
            offset = header.next_offset
    return bytes(found)
