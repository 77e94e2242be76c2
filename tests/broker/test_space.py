"""A disk that runs out of room: producers are slowed down, then refused, then go on."""

import asyncio
import logging
from typing import Any

import pytest

from tests.broker.asks import batch_of, produce_request
from tests.broker.support import Served, serving
from tierlog.broker.errors import OutOfSpace
from tierlog.broker.space import THROTTLE_MS_MAX, Marks, Space, throttle_ms
from tierlog.config import NodeSettings
from tierlog.sim.disk import SimDisk
from tierlog.wire.error_codes import ErrorCode

GIB = 1 << 30
MARKS = Marks(throttle_bytes=10 * GIB, refuse_bytes=5 * GIB)
"""Of a disk of 100 GiB, at the defaults: a share of 5 %, and twice as much."""


@pytest.mark.parametrize(
    ("free_bytes", "delay_ms"),
    [
        (50 * GIB, 0),
        (10 * GIB, 0),
        (9 * GIB, 200),
        (6 * GIB, 800),
        (5 * GIB, THROTTLE_MS_MAX),
        (0, THROTTLE_MS_MAX),
    ],
)
def test_the_delay_grows_as_the_room_shrinks(free_bytes: int, delay_ms: int) -> None:
    assert throttle_ms(free_bytes, MARKS) == delay_ms


def test_without_room_between_the_marks_nobody_is_slowed_down() -> None:
    assert throttle_ms(1, Marks(throttle_bytes=GIB, refuse_bytes=GIB)) == 0
    assert throttle_ms(0, Marks(throttle_bytes=0, refuse_bytes=0)) == 0


def test_refusing_begins_below_the_mark_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk(capacity=100 * GIB)
    disk.mkdir("/data")
    space = Space(disk, "/data", MARKS)
    disk.capacity = disk.used + 5 * GIB
    space.look()
    space.check()
    assert space.is_pressing
    disk.capacity -= 1
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            space.look()
            with pytest.raises(OutOfSpace) as refused:
                space.check()
            assert f"{5 * GIB - 1} bytes free and keeps {5 * GIB}" in str(refused.value)
            assert "delete topics or records" in str(refused.value), "what helps today"
        disk.capacity += 1
        space.look()
    assert [line.levelname for line in caplog.records] == ["ERROR", "WARNING"]
    space.check()


@pytest.mark.parametrize(
    ("settings", "marks"),
    [
        (NodeSettings(), MARKS),
        (
            NodeSettings(tierlog_disk_free_min_ratio=0.0),
            Marks(throttle_bytes=4 * GIB, refuse_bytes=2 * GIB),
        ),
        (
            NodeSettings(
                tierlog_disk_free_min_ratio=0.2,
                tierlog_disk_free_min_bytes=0,
                tierlog_disk_free_throttle_factor=1.5,
            ),
            Marks(throttle_bytes=30 * GIB, refuse_bytes=20 * GIB),
        ),
    ],
)
async def test_the_marks_of_a_node_are_those_of_its_settings(
    settings: NodeSettings, marks: Marks
) -> None:
    async with serving(settings, disk=SimDisk(capacity=100 * GIB)) as served:
        assert served.node.space.marks == marks


def leave(served: Served, free_bytes: int) -> None:
    served.disk.capacity = served.disk.used + free_bytes
    served.node.space.look()


async def produce(served: Served) -> tuple[int, int]:
    """Error code of the answer, and for how many milliseconds it was held back, as counted."""
    loop, held_before = asyncio.get_running_loop(), served.node.stats.throttled_ms
    began = loop.time()
    response: Any = await served.call(produce_request("t", batch_of(served, b"v"), acks=1), 12)
    took_ms = (loop.time() - began) * 1000
    held_ms = served.node.stats.throttled_ms - held_before
    assert took_ms >= held_ms - 1, "a timer may be early by the clock's resolution"
    return response.responses[0].partition_responses[0].error_code, held_ms


async def test_a_produce_is_slowed_down_then_refused_and_goes_on_when_there_is_room() -> None:
    async with serving(disk=SimDisk(capacity=100 * GIB)) as served:
        partition = (await served.create("t")).partition(0)
        assert await produce(served) == (0, 0)
        assert await produce(served) == (0, 0), "on the short road too"
        leave(served, 10 * GIB - GIB // 10)
        assert await produce(served) == (0, 19)
        assert await produce(served) == (0, 19)
        leave(served, 5 * GIB - 1)
        code, _ = await produce(served)
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        await partition.log.settle()
        assert partition.high_watermark == 4, "consumers do not notice"
        leave(served, 50 * GIB)
        assert await produce(served) == (0, 0)
        assert partition.log.log_end == 5
