"""Changes to topics while the disk has no room, or the process no files to open."""

import asyncio
import errno

import pytest

from tests.broker.support import Served, serving
from tierlog.broker import catalogue
from tierlog.broker.controller import NewTopic
from tierlog.config import NodeSettings
from tierlog.hot import LogSettings
from tierlog.hot.errors import DiskFull, TooManyFiles
from tierlog.sim.disk import SimDisk
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tierlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tierlog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tierlog.wire.schema import NO_UUID

NO_MARKS = NodeSettings(tierlog_disk_free_min_bytes=0, tierlog_disk_free_min_ratio=0.0)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "RETRY_S", 0.0)


def create(name: str, *, timeout_ms: int = 10_000) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


async def test_below_the_refuse_mark_nothing_is_created_and_topics_can_be_deleted() -> None:
    async with serving() as served:
        await served.create("t")
        served.disk.capacity = served.disk.used + (1 << 20)
        served.node.space.look()
        (refused,) = (await served.call(create("u"), 7)).topics
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "free some space" in refused.error_message
        more = CreatePartitionsTopic(name="t", count=2, assignments=None)
        request = CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False)
        (refused,) = (await served.call(request, 3)).results
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        gone = DeleteTopicState(name="t", topic_id=NO_UUID)
        response = await served.call(DeleteTopicsRequest(topics=[gone], timeout_ms=1000), 6)
        assert response.responses[0].error_code == 0


async def test_a_disk_that_fills_up_under_a_creation_delays_it_and_stops_nobody() -> None:
    async with serving(NO_MARKS) as served:
        await served.create("t")
        await fill_up(served)
        assert not served.node.broken.done()
        assert served.node.topics.named("t").partition(0).log.log_start == 0
        served.disk.capacity = 1 << 40
        (made,) = (await served.call(create("u"), 7)).topics
        assert made.error_code == 0
        assert not served.node.broken.done()


async def fill_up(served: Served) -> None:
    """Create topics until one of them finds no room."""
    served.disk.capacity = served.disk.used + (1 << 18)
    for number in range(100):
        response = await served.call(create(f"more{number}", timeout_ms=50), 7)
        if response.topics[0].error_code:
            assert response.topics[0].error_code in (
                ErrorCode.REQUEST_TIMED_OUT,
                ErrorCode.KAFKA_STORAGE_ERROR,
            )
            return
    raise AssertionError("there was always room")


async def test_too_many_open_files_delay_a_creation(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, tries = served.node.directory, 0
    opens = directory.open_log

    async def open_later(*args: object, **kwargs: object) -> object:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise TooManyFiles(f"errno {errno.EMFILE}")
        return await opens(*args, **kwargs)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(directory, "open_log", open_later)
    await served.node.controller.create(NewTopic(name="t", partitions=1))
    assert tries == 3
    assert len(served.node.topics.named("t").partitions) == 1


async def test_a_creation_that_waits_for_room_holds_up_nobody_else(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await served.create("old", partitions=2)
    kept = await served.create("kept")
    directory = served.node.directory
    opens, refused = directory.open_log, asyncio.Event()

    async def open_later(name: str, settings: LogSettings) -> object:
        if "old" in served.node.topics.by_name:
            refused.set()
            raise TooManyFiles(f"errno {errno.EMFILE}")
        return await opens(name, settings)

    monkeypatch.setattr(directory, "open_log", open_later)
    creating = asyncio.ensure_future(served.node.controller.create(NewTopic(name="t")))
    await refused.wait()
    await served.node.controller.replace_configs(kept, {"retention.ms": "1"})
    assert kept.config.retention_ms == 1
    assert "t" not in served.node.topics.by_name
    assert not creating.done()
    await served.node.controller.delete(old)
    await creating
    assert len(served.node.topics.named("t").partitions) == 1


async def test_a_stop_while_a_creation_waits_for_room_closes_what_was_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk()
    async with serving(disk=disk) as served:
        directory, refusals = served.node.directory, asyncio.Semaphore(0)
        opens = directory.open_log

        async def open_first(name: str, settings: LogSettings) -> object:
            if not name.endswith("-0"):
                refusals.release()
                raise TooManyFiles(f"errno {errno.EMFILE}")
            return await opens(name, settings)

        monkeypatch.setattr(directory, "open_log", open_first)
        wanted = NewTopic(name="t", partitions=2)
        creating = asyncio.ensure_future(served.node.controller.create(wanted))
        for _ in range(2):  # The second time, the first partition is open and stays so.
            await refusals.acquire()
        creating.cancel()
    assert not served.node.directory._logs, "all logs are closed, or let go"
    async with serving(disk=disk) as served:
        assert len(served.node.topics.named("t").partitions) == 2


async def test_a_full_disk_at_the_stop_costs_nothing_but_a_longer_start() -> None:
    disk = SimDisk()
    async with serving(NO_MARKS, disk=disk) as served:
        await served.create("t")
        await served.create("u")
        await served.fill("t", 3)
        disk.capacity = disk.used
    disk.capacity = 1 << 40
    async with serving(NO_MARKS, disk=disk) as served:
        assert served.node.topics.named("t").partition(0).high_watermark == 3


async def test_retention_makes_room_on_a_full_disk() -> None:
    async with serving(NO_MARKS) as served:
        topic = await served.create("t", retention_bytes="0", remote_storage_enable="false")
        await served.fill("t", 3)
        log = topic.partition(0).log
        served.disk.capacity = served.disk.used + (1 << 20)
        with pytest.raises(DiskFull):
            log.roll()
        served.node._upkeep._expire(topic.partition(0))
        await log.settle()
        await log.settle()
        assert (log.log_start, log.size_bytes) == (3, 0)
        names = served.disk.listdir(log.path)
        assert [name for name in names if name.endswith(".log")] == [f"{3:020d}.log"]
