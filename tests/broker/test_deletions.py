"""Topics go at once, their logs while nobody waits, and a restart finishes what was begun."""

import asyncio
from typing import Any

import pytest

from tests.broker.support import Served, serving
from tierlog.hot import Log, LogDirectory
from tierlog.hot.errors import LogClosed, TooManyFiles
from tierlog.metastore import values
from tierlog.metastore.values import log_name
from tierlog.sim.disk import SimDisk
from tierlog.types import Offset


class Gate:
    """Logs are deleted when the test says so."""

    def __init__(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self._delete_log = served.node.directory.delete_log
        self._open = asyncio.Event()
        self._arrivals = asyncio.Semaphore(0)
        monkeypatch.setattr(served.node.directory, "delete_log", self._later)

    async def _later(self, log: Log) -> None:
        self._arrivals.release()
        await self._open.wait()
        await self._delete_log(log)

    async def reached(self, count: int) -> None:
        for _ in range(count):
            await self._arrivals.acquire()

    def open(self) -> None:
        self._open.set()


async def notes(served: Served) -> int:
    return len((await served.metastore.list(values.DELETED))[0])


async def test_a_deletion_is_told_before_the_logs_are_gone_and_holds_up_nobody(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t", partitions=3)
    gate = Gate(served, monkeypatch)
    await served.node.controller.delete(topic)
    assert "t" not in served.node.topics.by_name
    assert topic.id not in served.node.topics.by_id
    await served.create("u")
    heir = await served.create("t", partitions=2)
    await served.fill("t", 3)
    assert await notes(served) == 1
    gate.open()
    await served.node.catalogue.deleted()
    assert await notes(served) == 0
    names = served.node.directory.names()
    assert not [name for name in names if name.startswith(topic.id.hex())]
    assert len([name for name in names if name.startswith(heir.id.hex())]) == 2
    await served.fill("t", 1)
    assert heir.partition(0).high_watermark == 4


async def test_logs_are_deleted_side_by_side(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t", partitions=4)
    gate = Gate(served, monkeypatch)
    await served.node.controller.delete(topic)
    await gate.reached(4)
    gate.open()
    await served.node.catalogue.deleted()


async def test_whoever_waits_at_a_log_hears_at_once_that_it_goes(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t", partitions=20)
    waits = [one.log.wait_visible(Offset(1)) for one in topic.partitions]
    gate = Gate(served, monkeypatch)
    await served.node.controller.delete(topic)
    for wait in waits:
        with pytest.raises(LogClosed):
            await wait
    gate.open()


async def test_a_stop_leaves_the_rest_to_the_next_start_which_opens_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk()
    async with serving(disk=disk) as served:
        topic = await served.create("t", partitions=20)
        await served.create("u")
        await served.fill("t", 3)
        gate = Gate(served, monkeypatch)
        await served.node.controller.delete(topic)
        await gate.reached(1)
    assert not served.node.directory._logs, "all logs are closed, or let go"
    opened: list[str] = []
    open_log = LogDirectory.open_log

    async def counting(self: LogDirectory, name: str, *args: Any, **kwargs: Any) -> Log:
        opened.append(name)
        return await open_log(self, name, *args, **kwargs)

    monkeypatch.setattr(LogDirectory, "open_log", counting)
    async with serving(disk=disk) as served:
        other = served.node.topics.named("u")
        assert opened == [log_name(other.id, 0)]
        assert served.node.directory.names() == opened
        assert await notes(served) == 0


async def test_a_deletion_that_finds_no_free_file_is_tried_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tierlog.broker.deletions.RETRY_S", 0.0)
    topic = await served.create("t", partitions=2)
    delete_log, tries = served.node.directory.delete_log, 0

    async def seldom(log: Log) -> None:
        nonlocal tries
        tries += 1
        if tries < 5:
            raise TooManyFiles("none left")
        await delete_log(log)

    monkeypatch.setattr(served.node.directory, "delete_log", seldom)
    await served.node.controller.delete(topic)
    await served.node.catalogue.deleted()
    assert served.node.directory.names() == []
    assert not served.node.broken.done()


async def test_a_deletion_that_goes_wrong_breaks_the_node(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await served.create("t")

    async def wrong(log: Log) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(served.node.directory, "delete_log", wrong)
    await served.node.controller.delete(topic)
    assert isinstance(await served.node.broken, ZeroDivisionError)
