"""Fetches that ask on from another offset: the short road answers what the long one would."""

from typing import Any

import pytest

from tests.broker.handlers.test_fetch import NEWEST, VERSIONS, ask, fetch, offsets, request
from tests.broker.support import Served
from tierlog.wire.error_codes import ErrorCode


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_fetch_that_asks_on_is_answered_as_the_first(served: Served, version: int) -> None:
    await served.create("t")
    await served.fill("t", 5)
    for start in (0, 2, 4):
        (found,) = await fetch(served, "t", ask(0, start), version=version)
        assert (found.error_code, found.high_watermark) == (0, 5)
        assert offsets(found.records) == list(range(start, 5))
    assert served.peer.fetches is not None
    await served.fill("t", 1)
    (found,) = await fetch(served, "t", ask(0, 5), version=version)
    assert (offsets(found.records), found.high_watermark) == ([5], 6)


async def test_asking_on_counts_like_any_fetch(served: Served) -> None:
    topic = await served.create("t")
    await served.fill("t", 3)
    for start in (0, 1, 2):
        await fetch(served, "t", ask(0, start))
    assert topic.stats.fetches == 3
    assert served.node.stats.api(1).requests == served.node.stats.api(1).seconds.count == 3


async def test_asking_on_beyond_the_log_is_refused(served: Served) -> None:
    await served.create("t")
    await served.fill("t", 2)
    await fetch(served, "t", ask(0, 0))
    (found,) = await fetch(served, "t", ask(0, 9))
    assert found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    (found,) = await fetch(served, "t", ask(0, 2))
    assert (found.error_code, offsets(found.records)) == (0, [])


async def test_asking_on_in_a_topic_that_is_gone_is_refused(served: Served) -> None:
    topic = await served.create("t")
    await served.fill("t", 2)
    asked = request(served, "t", ask(0, 0))
    first: Any = await served.call(asked, NEWEST)
    assert first.responses[0].partitions[0].error_code == 0
    served.node.topics.remove(topic)
    again: Any = await served.call(asked, NEWEST)
    assert again.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_known_leader_epoch_that_is_wrong_is_never_on_the_short_road(
    served: Served,
) -> None:
    topic = await served.create("t")
    await served.fill("t", 2)
    known = topic.partition(0).leader_epoch
    for _ in range(2):
        (found,) = await fetch(served, "t", ask(0, 0, epoch=known))
        assert found.error_code == 0
        (found,) = await fetch(served, "t", ask(0, 0, epoch=known + 1))
        assert found.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
