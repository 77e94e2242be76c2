"""DescribeLogDirs on the wire."""

from typing import Any

import pytest

from tests.broker.support import Served
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)

VERSIONS = range(1, 6)
ALL = DescribeLogDirsRequest(topics=None)


def request(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=some) for name, some in topics]
    )


async def directory(served: Served, asked: DescribeLogDirsRequest, version: int = 5) -> Any:
    response = await served.call(asked, version)
    assert response.error_code == 0
    assert len(response.results) == 1
    return response.results[0]


def indexes(found: Any) -> dict[str, list[int]]:
    return {one.name: [each.partition_index for each in one.partitions] for one in found.topics}


@pytest.mark.parametrize("version", VERSIONS)
async def test_null_asks_for_everything_in_every_version(served: Served, version: int) -> None:
    await served.create("b", partitions=2)
    topic = await served.create("a")
    await served.fill("a", 3)
    found = await directory(served, ALL, version)
    assert (found.error_code, found.log_dir) == (0, "/data/log")
    assert indexes(found) == {"a": [0], "b": [0, 1]}
    (partition,) = found.topics[0].partitions
    assert partition.partition_size == topic.partition(0).log.size_bytes > 0
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    if version >= 4:
        assert found.total_bytes == served.disk.capacity
        assert 0 < found.usable_bytes < found.total_bytes
    assert not found.is_cordoned


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_empty_list_asks_for_no_topics(served: Served, version: int) -> None:
    await served.create("t")
    assert (await directory(served, request(), version)).topics == []


async def test_only_what_is_asked_for_and_here_is_told(served: Served) -> None:
    await served.create("t", partitions=3)
    await served.create("u")
    asked = request(("t", [2, 0, 7, -1]), ("x", [0]), ("u", []))
    assert indexes(await directory(served, asked)) == {"t": [2, 0]}


async def test_what_is_asked_for_twice_is_told_once(served: Served) -> None:
    await served.create("t", partitions=3)
    asked = request(("t", [0, 0]), ("t", [1, 0]))
    assert indexes(await directory(served, asked)) == {"t": [0, 1]}


async def test_a_broken_directory_says_so(served: Served) -> None:
    await served.create("t")
    served.node.directory.syncs.latch(OSError("fsync failed"))
    found = await directory(served, ALL)
    assert (found.error_code, found.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
