"""Compacted topics of a node: cleaned without being asked, by the rules of their settings."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.broker.asks import fetch, fetch_topic, offsets_in, produce
from tests.broker.support import Served, serving
from tests.broker.test_upkeep import clock_of, happens
from tests.hot.cleaned import keyed
from tierlog.broker import upkeep
from tierlog.broker.compaction import cleaner_settings, compacted, rules_of
from tierlog.broker.partition import log_settings
from tierlog.config import NodeSettings, topic_config
from tierlog.hot.cleaner import CleanerSettings
from tierlog.hot.dirt import CleaningRules
from tierlog.records.attributes import Codec
from tierlog.sim.disk import SimDisk
from tierlog.wire.error_codes import ErrorCode

OFTEN = NodeSettings(log_cleaner_backoff_ms=1)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "TICK_S", 0.0)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving(OFTEN) as one:
        yield one


async def put(served: Served, *pairs: tuple[bytes, bytes | None]) -> None:
    partition, clock = served.node.topics.named("t").partition(0), clock_of(served)
    for pair in pairs:
        partition.append(memoryview(keyed(pair, timestamp=clock.ms)), clock.ms)
    await partition.log.settle()


async def cleaned(served: Served, end: int) -> bool:
    log = served.node.topics.named("t").partition(0).log
    for _ in range(50):
        if await happens(lambda: log.cleaned_to == end):
            return True
        await asyncio.sleep(0.001)
    return False


async def test_a_compacted_topic_is_cleaned_once_its_segment_is_sealed(served: Served) -> None:
    await served.create("t", cleanup_policy="compact", segment_ms="1000")
    await put(served, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    clock_of(served).ms += 1000
    assert await cleaned(served, 3)
    answered = await fetch(served, fetch_topic("t", 0))
    assert offsets_in(answered.records) == [1, 2]
    stats = served.node.cleaner.stats
    assert (stats.cleanings, stats.failures, stats.dropped_records) == (1, 0, 1)


async def test_the_longest_lag_seals_and_cleans(served: Served) -> None:
    await served.create(
        "t", cleanup_policy="compact", max_compaction_lag_ms="5000", min_cleanable_dirty_ratio="1"
    )
    await put(served, (b"a", b"1"), (b"a", b"2"))
    clock_of(served).ms += 5000
    log = served.node.topics.named("t").partition(0).log
    assert await happens(lambda: len(log.segments) == 2), "sealed in time"
    clock_of(served).ms += 1
    assert await cleaned(served, 2)


async def test_a_topic_that_is_compacted_and_deleted_loses_what_is_old() -> None:
    settings = NodeSettings(log_cleaner_backoff_ms=1, log_retention_check_interval_ms=1)
    async with serving(settings) as served:
        await served.create(
            "t", cleanup_policy="compact,delete", segment_ms="1000", retention_ms="60000"
        )
        await put(served, (b"a", b"1"), (b"a", b"2"))
        clock_of(served).ms += 1000
        assert await cleaned(served, 2)
        log = served.node.topics.named("t").partition(0).log
        assert log.log_start == 0
        clock_of(served).ms += 60_000
        assert await happens(lambda: log.log_start == 2)


async def test_a_compacted_topic_never_expires(served: Served) -> None:
    await served.create("t", cleanup_policy="compact", segment_ms="1000", retention_ms="1")
    await put(served, (b"a", b"1"))
    clock_of(served).ms += 10**9
    assert await cleaned(served, 1)
    assert offsets_in((await fetch(served, fetch_topic("t", 0))).records) == [0]


async def test_what_is_clean_is_known_to_the_next_node() -> None:
    disk = SimDisk()
    async with serving(OFTEN, disk=disk) as served:
        await served.create("t", cleanup_policy="compact", segment_ms="1000")
        await put(served, (b"a", b"1"), (b"a", b"2"))
        clock_of(served).ms += 1000
        assert await cleaned(served, 2)
    async with serving(OFTEN, disk=disk) as served:
        assert served.node.topics.named("t").partition(0).log.cleaned_to == 2


@pytest.mark.parametrize("codec", list(Codec))
async def test_keys_are_asked_for_in_compressed_batches_too(served: Served, codec: Codec) -> None:
    await served.create("t", cleanup_policy="compact")
    batch = keyed((b"k", b"v"), (None, b"x" * 300), timestamp=clock_of(served).ms, codec=codec)
    refused = await produce(served, "t", batch)
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in refused.record_errors] == [1]


def test_the_rules_of_a_topic_reach_the_cleaner() -> None:
    config = topic_config(
        {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.3",
            "min.compaction.lag.ms": "4",
            "max.compaction.lag.ms": "50",
            "delete.retention.ms": "6",
        },
        NodeSettings(),
    )
    assert rules_of(config) == CleaningRules(
        min_dirty_ratio=0.3, min_lag_ms=4, max_lag_ms=50, delete_retention_ms=6
    )
    assert log_settings(config, producer_expiration_ms=1).segment_ms == 50


def test_the_settings_of_a_node_reach_the_cleaner() -> None:
    settings = NodeSettings(
        log_cleaner_backoff_ms=7,
        log_cleaner_dedupe_buffer_size=4096,
        log_cleaner_io_max_bytes_per_second=99.5,
    )
    assert cleaner_settings(settings) == CleanerSettings(
        backoff_ms=7, dedupe_bytes=4096, bytes_per_second=99.5
    )
    assert cleaner_settings(NodeSettings()) == CleanerSettings()


async def test_only_compacted_topics_are_looked_at(served: Served) -> None:
    await served.create("t", cleanup_policy="compact", partitions=2)
    await served.create("other")
    assert [one.name for one in compacted(served.node.topics)] == ["t-0", "t-1"]
