"""Each limit that a node is given reaches whoever keeps it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path

import pytest

from tests.broker.asks import batch_of, fetch, fetch_topic, offsets_in, produce
from tests.broker.support import serving
from tests.hot.support import batch
from tierlog.broker.controller import NewTopic
from tierlog.broker.errors import PolicyViolation
from tierlog.broker.fileshares import share_files
from tierlog.broker.limits import ConnectionLimits
from tierlog.broker.partition import Partition
from tierlog.config import NodeSettings
from tierlog.env import local_env
from tierlog.server import Server, connection_limits

SETTINGS = NodeSettings(
    socket_request_max_bytes=50 << 20,
    tierlog_connection_inflight_max_bytes=11 << 20,
    queued_max_request_bytes=99 << 20,
    max_connections=77,
    max_connections_per_ip=7,
    tierlog_handshake_timeout_ms=1500,
    connections_max_idle_ms=2500,
)
EXPECTED = {
    "produce_bytes_max": 50 << 20,
    "in_flight_bytes_max": 11 << 20,
    "node_bytes_max": 99 << 20,
    "connections_max": 77,
    "connections_per_ip_max": 7,
    "handshake_s": 1.5,
    "idle_s": 2.5,
}
WITHOUT_A_SETTING = {"request_bytes_max", "reply_bytes_max", "frame_s"}


def test_every_limit_of_connections_is_set_or_known_to_have_no_setting() -> None:
    assert {each.name for each in fields(ConnectionLimits)} == EXPECTED.keys() | WITHOUT_A_SETTING


@pytest.mark.parametrize("name", EXPECTED)
def test_a_limit_of_connections_is_the_one_that_was_set(name: str) -> None:
    assert getattr(ConnectionLimits(), name) != EXPECTED[name], "a default would prove nothing"
    files = share_files(1 << 20, connections_max=SETTINGS.max_connections)
    assert getattr(connection_limits(SETTINGS, files), name) == EXPECTED[name]


async def test_a_fetch_holds_no_more_than_fetch_max_bytes() -> None:
    async with serving(NodeSettings(fetch_max_bytes=2048)) as served:
        await served.create("t")
        for _ in range(4):
            await produce(served, "t", batch_of(served, b"v" * 800))
        answered = await fetch(served, fetch_topic("t", 0))
        assert offsets_in(answered.records) == [0, 1]


async def test_a_node_holds_no_more_than_its_partitions() -> None:
    async with serving(NodeSettings(tierlog_partitions_max=3)) as served:
        await served.create("t", partitions=2)
        with pytest.raises(PolicyViolation, match="more than the 3 that this node holds"):
            await served.node.controller.create(NewTopic(name="u", partitions=2))
        await served.create("u", partitions=1)


async def test_a_silent_producer_is_forgotten_after_its_time() -> None:
    async with serving(NodeSettings(producer_id_expiration_ms=4321)) as served:
        log = (await served.create("t")).partition(0).log
        assert log.settings.producer_expiration_ms == 4321
        await served.node.controller.replace_configs(
            served.node.topics.named("t"), {"segment.bytes": "4096"}
        )
        assert (log.settings.producer_expiration_ms, log.settings.segment_bytes) == (4321, 4096)


# The end of a server


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Server]:
    settings = NodeSettings(
        data=str(folder), listen="127.0.0.1:0", http="off", tierlog_drain_timeout_ms=1234
    )
    server = Server(local_env(), settings)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def partition_of(server: Server) -> Partition:
    return server.node.topics.named("t").partition(0)


async def test_a_server_that_stops_drains_for_as_long_as_it_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_s: list[float] = []
    async with started(tmp_path) as server:
        drain = server.listener.drain

        async def noted(timeout_s: float) -> None:
            assert not server.node.broken.done()
            waited_s.append(timeout_s)
            await drain(timeout_s)

        monkeypatch.setattr(server.listener, "drain", noted)
    assert waited_s == [1.234]


async def test_a_server_that_stopped_has_left_its_logs_clean(tmp_path: Path) -> None:
    async with started(tmp_path) as server:
        await server.node.controller.create(NewTopic(name="t", partitions=1))
        now_ms = server.node.now_ms()
        partition_of(server).append(memoryview(batch(b"v", timestamp=now_ms)), now_ms)
        await partition_of(server).log.settle()
    async with started(tmp_path) as server:
        log = partition_of(server).log
        assert (log.log_end, log.scanned_bytes) == (1, 0), "what is clean is not read again"
