"""DeleteRecords on the wire."""

from random import Random
from typing import Any

import pytest

from tests.broker.support import Served, serving
from tierlog.sim.power import DataFate, NameFate
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

VERSIONS = range(3)


def request(name: str, *wanted: tuple[int, int], timeout_ms: int = 10_000) -> DeleteRecordsRequest:
    partitions = [
        DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in wanted
    ]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=name, partitions=partitions)], timeout_ms=timeout_ms
    )


async def rows(served: Served, asked: DeleteRecordsRequest, version: int = 2) -> list[Any]:
    response = await served.call(asked, version)
    found = []
    for topic in response.topics:
        found += [
            (one.partition_index, one.low_watermark, one.error_code) for one in topic.partitions
        ]
    return found


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_moves_the_log_start_up(served: Served, version: int) -> None:
    topic = await served.create("t")
    await served.fill("t", 5)
    assert await rows(served, request("t", (0, 3)), version) == [(0, 3, 0)]
    assert topic.partition(0).log.log_start == 3


@pytest.mark.parametrize("version", VERSIONS)
async def test_minus_one_stands_for_the_high_watermark(served: Served, version: int) -> None:
    await served.create("t")
    await served.fill("t", 5)
    assert await rows(served, request("t", (0, -1)), version) == [(0, 5, 0)]


async def test_an_offset_below_the_log_start_is_no_error(served: Served) -> None:
    await served.create("t")
    await served.fill("t", 5)
    await rows(served, request("t", (0, 3)))
    assert await rows(served, request("t", (0, 1))) == [(0, 3, 0)]
    assert await rows(served, request("t", (0, 3))) == [(0, 3, 0)]


@pytest.mark.parametrize("offset", [6, 2**63 - 1, -2, -(2**63)])
async def test_an_offset_beyond_the_high_watermark_or_below_zero_is_out_of_range(
    served: Served, offset: int
) -> None:
    topic = await served.create("t")
    await served.fill("t", 5)
    expected = [(0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
    assert await rows(served, request("t", (0, offset))) == expected
    assert topic.partition(0).log.log_start == 0


async def test_each_partition_has_its_own_result(served: Served) -> None:
    await served.create("t", partitions=2)
    await served.fill("t", 2, partition=1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await rows(served, request("t", (1, 1), (0, 1), (7, 0), (-1, 0))) == [
        (1, 1, 0),
        (0, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (7, -1, unknown),
        (-1, -1, unknown),
    ]
    assert await rows(served, request("x", (0, 0))) == [(0, -1, unknown)]


async def test_what_was_answered_as_gone_stays_gone_after_a_power_cut() -> None:
    async with serving() as served:
        await served.create("t")
        await served.fill("t", 5)
        assert await rows(served, request("t", (0, 4))) == [(0, 4, 0)]
        left = served.disk.after_power_cut(Random(0), data=DataFate.LOST, names=NameFate.LOST)
    async with serving(disk=left) as served:
        assert served.node.topics.named("t").partition(0).log.log_start == 4


async def test_a_trim_that_is_not_durable_in_time_is_not_answered_as_done(served: Served) -> None:
    topic = await served.create("t")
    await served.fill("t", 5)
    assert await rows(served, request("t", (0, 4), timeout_ms=0)) == [
        (0, -1, ErrorCode.REQUEST_TIMED_OUT)
    ]
    assert topic.partition(0).log.log_start == 4
    assert await rows(served, request("t", (0, 4))) == [(0, 4, 0)]


async def test_a_compacted_topic_keeps_its_records(served: Served) -> None:
    await served.create("t", cleanup_policy="compact")
    assert await rows(served, request("t", (0, 0))) == [(0, -1, ErrorCode.POLICY_VIOLATION)]


async def test_a_compliance_topic_keeps_its_records(served: Served) -> None:
    await served.create("t", tierlog_compliance="true")
    assert await rows(served, request("t", (0, 0))) == [(0, -1, ErrorCode.POLICY_VIOLATION)]


async def test_records_of_an_internal_topic_are_the_clusters_own(served: Served) -> None:
    await served.create("__consumer_offsets")
    assert await rows(served, request("__consumer_offsets", (0, 0))) == [
        (0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION)
    ]
