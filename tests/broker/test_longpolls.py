"""Fetches that wait, when the node stops."""

import asyncio
from typing import Any

from tests.broker.support import Served
from tierlog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

VERSION = 12
HOUR_MS = 3_600_000


def waiting() -> FetchRequest:
    ask = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchTopic(topic="t", partitions=[ask])
    return FetchRequest(max_wait_ms=HOUR_MS, min_bytes=1, max_bytes=1 << 20, topics=[asked])


async def answered(served: Served, answer: Any) -> Any:
    _, response = served.decoded(waiting(), VERSION, await asyncio.wait_for(answer, 5))
    return response.responses[0].partitions[0]


async def test_a_waiting_fetch_is_answered_when_the_node_stops(served: Served) -> None:
    await served.create("t")
    polls = served.node.long_polls
    answers = [served.send(waiting(), VERSION) for _ in range(3)]
    assert len(polls) == 3
    polls.finish_all()
    for answer in answers:
        partition = await answered(served, answer)
        assert (partition.error_code, partition.high_watermark) == (0, 0)
    assert len(polls) == 0


async def test_a_fetch_that_comes_after_that_does_not_wait(served: Served) -> None:
    await served.create("t")
    served.node.long_polls.finish_all()
    partition = await answered(served, served.send(waiting(), VERSION))
    assert partition.error_code == 0


async def test_answered_and_cancelled_fetches_are_forgotten(served: Served) -> None:
    await served.create("t")
    first, second = served.send(waiting(), VERSION), served.send(waiting(), VERSION)
    assert isinstance(first, asyncio.Future)
    first.cancel()
    await served.fill("t", 1)
    assert (await answered(served, second)).high_watermark == 1
    await asyncio.sleep(0)
    assert len(served.node.long_polls) == 0
