"""A whole node, on its way out and short of files."""

import asyncio
from pathlib import Path

import pytest

from tests.broker.obedient import until
from tests.broker.test_longpolls import VERSION, waiting
from tests.http.nodes import RunningNode, running, settings
from tierlog.env import local_env
from tierlog.server import Server
from tierlog.wire.header import encode_request


async def test_a_node_that_stops_does_not_wait_for_long_polls(tmp_path: Path) -> None:
    wanted = settings(str(tmp_path / "data"), tierlog_drain_timeout_ms=60_000)
    async with asyncio.timeout(20):
        async with running(local_env(), wanted) as node:
            await node.create("t")
            reader, writer = await asyncio.open_connection(*node.kafka)
            writer.writelines(encode_request(waiting(), VERSION, correlation_id=1, client_id="me"))
            await until(lambda: len(node.node.long_polls) == 1)
            reading = asyncio.ensure_future(answer_and_leave(reader, writer))
        assert await reading > 0


async def answer_and_leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return len(answer)


async def test_a_node_whose_drain_fails_is_stopped_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, wanted = local_env(), settings(str(tmp_path / "data"))

    async def failing(_: float) -> None:
        server.listener.close()
        raise ZeroDivisionError("a bug")

    server = Server(env, wanted)
    await server.start()
    monkeypatch.setattr(server.listener, "drain", failing)
    with pytest.raises(ZeroDivisionError):
        await server.stop()
    async with running(local_env(), wanted) as again:  # Its directory is free.
        assert isinstance(again, RunningNode)


async def test_a_node_keeps_to_its_share_of_the_open_files_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(local_env(), settings(str(tmp_path / "data")), files_max=1024)
    await server.start()
    assert server.listener.limits.connections_max == 336
    assert server.node.directory.pool._open_max == 224
    assert "may open only 1024 files" in caplog.text
    await server.stop()
