"""A look at a partition: what it finds to do, and that it costs nothing while there is nothing."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.cold.tiering import TIERING, TOPIC, TierNode, eager, play_node
from tierlog.hot import SealedSegment


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[TierNode], list[str]]:
    """Watch who lists the sealed segments, which a quiet partition need not."""

    def watch(node: TierNode) -> list[str]:
        asked: list[str] = []
        sealed = type(node.log).sealed

        def counted(log: object) -> tuple[SealedSegment, ...]:
            asked.append("sealed")
            return sealed(log)  # type: ignore[arg-type]  # a log

        monkeypatch.setattr(type(node.log), "sealed", counted)
        return asked

    return watch


def test_a_partition_with_nothing_to_do_is_not_searched(
    looks: Callable[[TierNode], list[str]],
) -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, local_retention_ms=600_000)
        await node.open()
        asked = looks(node)
        await asyncio.sleep(30)
        assert not asked, "it is empty"
        node.produce(b"a")
        await asyncio.sleep(30)
        assert not asked, "nothing is sealed"
        assert node.partition.status.lag_ms > 28_000
        node.log.roll()
        await asyncio.sleep(10)
        assert node.prefix.uploaded_end == 1
        del asked[:]
        await asyncio.sleep(500)
        assert not asked, "everything is cold, and kept for ten minutes"
        assert node.log.log_start == 0
        await asyncio.sleep(100)
        assert node.log.log_start == 1

    play_node(scenario)


def test_a_quiet_partition_wakes_for_a_segment_that_is_sealed(
    looks: Callable[[TierNode], list[str]],
) -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await asyncio.sleep(10)
        asked = looks(node)
        await asyncio.sleep(10)
        assert not asked
        await node.produce_sealed(b"b")
        await asyncio.sleep(5)
        assert node.prefix.uploaded_end == 2

    play_node(scenario)


def test_a_quiet_partition_wakes_for_new_settings() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        await node.produce_sealed(b"a")
        await asyncio.sleep(10)
        assert node.log.log_start == 0
        node.partition.reconfigure(TOPIC, eager())
        await asyncio.sleep(2)
        assert node.log.log_start == 1

    play_node(scenario)


def test_a_quiet_partition_wakes_when_it_grows_beyond_its_local_size() -> None:
    async def scenario(node: TierNode) -> None:
        node.tiering = replace(TIERING, local_retention_ms=-1, local_retention_bytes=400)
        await node.open()
        await node.produce_sealed(b"a" * 200)
        await asyncio.sleep(10)
        assert (node.prefix.uploaded_end, node.log.log_start) == (1, 0)
        node.produce(b"b" * 500)
        await asyncio.sleep(2)
        assert node.log.log_start == 1

    play_node(scenario)


def test_uploads_that_are_stopped_publish_what_was_sent() -> None:
    async def scenario(node: TierNode) -> None:
        await node.open()
        stopped = replace(TIERING, copies=False)

        def stop(kind: str, key: str) -> None:
            if kind == "put_if_absent" and "/seg/" in key:
                node.partition.reconfigure(TOPIC, stopped)

        node.store.watch = stop
        await node.produce_sealed(b"a")
        await node.produce_sealed(b"b")
        await asyncio.sleep(60)
        assert node.prefix.uploaded_end == 1
        assert node.partition.status.backlog_segments == 0
        node.store.watch = lambda _kind, _key: None
        node.partition.reconfigure(TOPIC, TIERING)
        await asyncio.sleep(5)
        assert node.prefix.uploaded_end == 2

    play_node(scenario)
