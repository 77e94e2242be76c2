"""What others see of a topic while it comes."""

import asyncio
from typing import Any

import pytest

from tests.broker.support import Served
from tierlog.broker.controller import NewTopic
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


class Gate:
    """Logs open when the test says so."""

    def __init__(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open_log = served.node.directory.open_log
        self._open = asyncio.Event()
        self.reached = asyncio.Event()
        monkeypatch.setattr(served.node.directory, "open_log", self._later)

    async def _later(self, *args: Any, **kwargs: Any) -> object:
        self.reached.set()
        await self._open.wait()
        return await self._open_log(*args, **kwargs)

    def open(self) -> None:
        self._open.set()


async def test_a_topic_is_shown_with_all_its_partitions_or_not_at_all(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(served, monkeypatch)
    creating = asyncio.ensure_future(
        served.node.controller.create(NewTopic(name="t", partitions=3))
    )
    await gate.reached.wait()
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
    )
    (topic,) = (await served.call(asked, 9)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await served.call(MetadataRequest(topics=None), 9)).topics == []
    gate.open()
    await creating
    (topic,) = (await served.call(asked, 9)).topics
    assert (topic.error_code, len(topic.partitions)) == (0, 3)


async def test_two_who_create_a_topic_by_asking_for_it_both_find_it_whole(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(served, monkeypatch)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    first = asyncio.ensure_future(served.call(asked, 9))
    await gate.reached.wait()
    second = asyncio.ensure_future(served.call(asked, 9))
    await asyncio.sleep(0)
    gate.open()
    for response in await asyncio.gather(first, second):
        (topic,) = response.topics
        assert (topic.error_code, len(topic.partitions)) == (0, 1)
