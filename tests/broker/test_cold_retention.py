"""Retention of tiered topics as an admin changes it: what the answer waits for (U7b), and what a
hold refuses."""

import asyncio
from dataclasses import replace

from tests.broker import asks
from tests.broker.coldworld import ColdServed, Lives, in_world, until
from tests.broker.handlers.test_incremental_alter_configs import SET, resource, result
from tierlog.broker.holds import Span
from tierlog.cold.head import Policy
from tierlog.types import Offset
from tierlog.wire.error_codes import ErrorCode

RETENTION = "retention.ms"


async def alter(served: ColdServed, value: str, *, name: str = RETENTION) -> int:
    found = await result(served, resource((name, SET, value)))
    return int(found.error_code)


@in_world
async def test_a_change_of_retention_stands_in_the_bucket_when_it_is_answered(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", partitions=2)
        await served.make_cold("t", b"a")
        await served.make_cold("t", b"b", index=1)
        assert lives.head(topic).policy == Policy()
        assert await alter(served, "86400000") == ErrorCode.NONE
        for index in range(2):
            head = lives.head(topic, index)
            assert (head.policy, head.policy_version) == (Policy(retention_ms=86_400_000), 1)


@in_world
async def test_settings_that_do_not_change_retention_wait_for_nobody(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        lives.store.is_closed = True
        assert await alter(served, "4096", name="segment.bytes") == ErrorCode.NONE
        assert topic.config.segment_bytes == 4096


@in_world
async def test_a_topic_with_nothing_in_the_bucket_is_altered_without_it(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        lives.store.is_closed = True
        assert await alter(served, "1000") == ErrorCode.NONE
        lives.store.is_closed = False
        await served.seal("t", b"a")
        await until(lambda: served.uploads("t").prefix.uploaded_end == 1)
        assert lives.head(topic).policy == Policy(retention_ms=1000)


@in_world
async def test_with_the_store_away_the_change_is_stored_and_nothing_expires_meanwhile(
    lives: Lives,
) -> None:
    """The sender hears an error that it may try again after; a longer life is never undercut."""
    async with lives.node() as served:
        topic = await served.tiered("t", retention_ms="100000")
        await served.make_cold("t", b"a")
        lives.store.is_closed = True
        error = await alter(served, "-1")
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        assert topic.config.retention_ms == -1
        await asyncio.sleep(600)
        lives.store.is_closed = False
        await asyncio.sleep(150)
        head = lives.head(topic)
        assert (head.log_start, head.policy) == (0, Policy())
        assert await alter(served, "-1") == ErrorCode.NONE
        assert await served.values("t") == [b"a"]


@in_world
async def test_a_silent_store_is_not_waited_for_longer_than_clients_wait(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a")
        clock = lives.env.clock
        lives.store.silence_s, began = 30.0, clock.monotonic()
        assert await alter(served, "1000000") == ErrorCode.KAFKA_STORAGE_ERROR
        assert clock.monotonic() - began < 16
        lives.store.silence_s = 0.0
        await asyncio.sleep(120)
        assert await alter(served, "1000000") == ErrorCode.NONE
        assert lives.head(topic).policy == Policy(retention_ms=1_000_000)


@in_world
async def test_a_change_that_was_not_told_before_a_kill_is_told_by_the_next_life(
    lives: Lives,
) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t", retention_ms="100000")
        await served.make_cold("t", b"a")
        lives.store.is_closed = True
        await alter(served, "-1")
    await asyncio.sleep(600)
    lives.store.is_closed = False
    async with lives.node() as served:
        await asyncio.sleep(150)
        assert (lives.head(topic).log_start, lives.head(topic).policy) == (0, Policy())
        assert await served.values("t") == [b"a"]


@in_world
async def test_consumers_see_the_beginning_move(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", retention_ms="60000")
        await served.make_cold("t", b"a", b"b")
        await asyncio.sleep(40)
        await served.make_cold("t", b"c")
        await asyncio.sleep(30)
        assert served.at("t").log_start == 2
        assert (await asks.offset_at(served, "t", -2)).offset == 2
        answer = await asks.fetch(served, asks.fetch_topic("t", 0, offset=1))
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await served.values("t", 2) == [b"c"]


def retention_soon(lives: Lives) -> None:
    lives.settings = replace(lives.settings, log_retention_check_interval_ms=1000)


@in_world
async def test_where_nothing_is_copied_retention_goes_by_time_on_the_local_log(
    lives: Lives,
) -> None:
    retention_soon(lives)
    async with lives.node() as served:
        topic = await served.tiered("t", retention_ms="60000")
        await served.make_cold("t", b"a")
        assert await alter(served, "true", name="remote.log.copy.disable") == ErrorCode.NONE
        await served.seal("t", b"b")
        await asyncio.sleep(30)
        await served.seal("t", b"c")
        assert served.at("t").log_start == 0
        await asyncio.sleep(40)
        one = served.at("t")
        assert (one.log.log_start, one.log_start, one.log.trimmed_to) == (2, 2, 2)
        assert await alter(served, "false", name="remote.log.copy.disable") == ErrorCode.NONE
        await until(lambda: one.cold is not None and one.cold.uploaded_end == 3)
        assert [entry.base for entry in lives.head(topic).entries] == [2]
        assert await served.values("t", 2) == [b"c"]


@in_world
async def test_where_nothing_is_copied_retention_goes_by_size_over_both_tiers(lives: Lives) -> None:
    retention_soon(lives)
    async with lives.node() as served:
        topic = await served.tiered("t", retention_bytes="5000")
        await served.make_cold("t", b"a" * 1000)
        await served.make_cold("t", b"b" * 1000)
        assert await alter(served, "true", name="remote.log.copy.disable") == ErrorCode.NONE
        for count in range(3, 13):
            await served.seal("t", b"x" * 1000)
            await asyncio.sleep(10)
            one = served.at("t")
            left = one.log.log_end - one.log_start
            # An object is a little larger than the segment it was made of.
            assert min(count, 4) <= left <= 6, "the oldest go first, wherever they are"
        assert lives.head(topic).log_start == 2
        assert one.log.log_start == one.log_start == one.log.trimmed_to > 5


@in_world
async def test_what_is_not_in_the_bucket_stays_while_copies_are_on(lives: Lives) -> None:
    retention_soon(lives)
    async with lives.node() as served:
        await served.tiered("t", retention_ms="1000", retention_bytes="1")
        lives.store.is_closed = True
        await served.seal("t", b"a")
        await asyncio.sleep(600)
        assert await served.values("t") == [b"a"]


@in_world
async def test_records_on_hold_are_not_deleted(lives: Lives) -> None:
    async with lives.node() as served:
        topic = await served.tiered("t")
        await served.make_cold("t", b"a", b"b", b"c")
        assert served.node.tiering is not None
        span = Span(index=0, start=Offset(1), end=Offset(2))
        await served.node.tiering.holds.place(topic, [span], hold_id="case-7", reason="a case")
        answer = await asks.delete_records(served, "t", 3)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert (served.at("t").log_start, served.at("t").log.trimmed_to) == (0, 0)
        answer = await asks.delete_records(served, "t", 1)
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 1)
        assert lives.head(topic).log_start == 1
