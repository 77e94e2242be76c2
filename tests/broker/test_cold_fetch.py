"""Fetch over both tiers: a consumer cannot tell which one served it, only the clock can."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from tests.broker import asks
from tests.broker.coldworld import ColdServed, Lives, in_world, until
from tests.broker.support import Served
from tierlog.fetchproxy.damage import CORRUPT_TELLS
from tierlog.wire.error_codes import ErrorCode
from tierlog.wire.messages.fetch import FetchPartition, FetchTopic


async def with_both_tiers(served: ColdServed) -> None:
    """Offsets 0 to 3 are in the bucket alone, in two segments; 4 and 5 on the disk alone."""
    await served.tiered("t")
    await served.make_cold("t", b"a", b"b")
    await served.make_cold("t", b"c", b"d")
    await served.append("t", b"e", b"f")
    assert served.at("t").log.log_start == served.uploads("t").prefix.uploaded_end == 4


@in_world
async def test_a_reader_passes_the_seam_without_noticing(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        assert await served.values("t") == [b"a", b"b", b"c", b"d", b"e", b"f"]
        for start in range(6):
            assert len(await served.values("t", start)) == 6 - start


@in_world
async def test_pitfall_14_no_version_of_fetch_tells_a_consumer_of_the_tiers(lives: Lives) -> None:
    """OFFSET_MOVED_TO_TIERED_STORAGE (v14 and later) is for followers alone."""
    async with lives.node() as served:
        await with_both_tiers(served)
        topic = served.node.topics.by_name["t"]
        for version in range(4, 19):
            for offset in range(7):
                topic_id = topic.id if version >= 13 else asks.NO_ID
                wanted = asks.fetch_topic("t", offset=offset, topic_id=topic_id)
                answer = await asks.fetch(served, wanted, version=version, wait_ms=1000)
                assert answer.error_code == ErrorCode.NONE
                assert asks.offsets_in(answer.records)[:1] == ([offset] if offset < 6 else [])
        lives.store.is_closed = True
    async with lives.node() as served:  # Nothing is in memory, and the store is away.
        topic = served.node.topics.by_name["t"]
        wanted = asks.fetch_topic("t", topic_id=topic.id)
        answer = await asks.fetch(served, wanted, version=18, wait_ms=60_000)
        assert answer.error_code != ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


@in_world
async def test_no_answer_has_records_of_both_tiers_twice(lives: Lives) -> None:
    """Below `uploaded_end` what is on the disk as well comes from the disk."""
    async with lives.node() as served:
        await served.tiered("t", local_retention_ms="-1", retention_ms="-1")
        await served.seal("t", b"a", b"b")
        await until(lambda: served.uploads("t").prefix.uploaded_end == 2)
        assert await served.values("t") == [b"a", b"b"]
        assert served.node.proxy is not None
        assert served.node.proxy.stats.gets == 0


@in_world
async def test_answers_tell_the_start_and_end_of_the_whole_partition(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        for offset in (0, 5):
            answer = await asks.fetch(served, asks.fetch_topic("t", offset=offset), wait_ms=5000)
            assert (answer.log_start_offset, answer.high_watermark) == (0, 6)


@in_world
async def test_what_is_out_of_range_is_so_in_both_tiers(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        for offset in (-1, 7):
            answer = await asks.fetch(served, asks.fetch_topic("t", offset=offset), wait_ms=5000)
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# Waiting


@in_world
async def test_records_that_are_late_are_waited_for(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        lives.store.is_open.clear()
        fetching = asyncio.ensure_future(asks.fetch(served, asks.fetch_topic("t"), wait_ms=5000))
        await until(lambda: lives.store.held)
        assert not fetching.done()
        lives.store.is_open.set()
        assert asks.offsets_in((await fetching).records) == [0, 1]


@in_world
async def test_records_that_are_too_late_come_with_the_next_fetch(lives: Lives) -> None:
    """The download goes on into the cache: it is not begun anew."""
    async with lives.node() as served:
        await with_both_tiers(served)
        lives.store.is_open.clear()
        before_s = asyncio.get_running_loop().time()
        answer = await asks.fetch(served, asks.fetch_topic("t"), wait_ms=300)
        assert (answer.error_code, answer.records) == (ErrorCode.NONE, b"")
        assert 0.29 < asyncio.get_running_loop().time() - before_s < 0.5
        held = lives.store.held
        lives.store.is_open.set()
        await asyncio.sleep(1)
        answer = await asks.fetch(served, asks.fetch_topic("t"), wait_ms=300)
        assert asks.offsets_in(answer.records) == [0, 1]
        assert lives.store.held == held


@in_world
async def test_a_reader_that_never_waits_gets_on_all_the_same(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        found: list[int] = []
        for _ in range(100):
            topic = asks.fetch_topic("t", offset=len(found))
            answer = await asks.fetch(served, topic, wait_ms=0)
            assert answer.error_code == ErrorCode.NONE
            found += asks.offsets_in(answer.records)
            await asyncio.sleep(0.1)
        assert found == [0, 1, 2, 3, 4, 5]


@in_world
async def test_a_partition_that_is_asked_for_twice_gets_on_all_the_same(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        for _ in range(20):
            response = await asks.fetch_all(served, asks.fetch_topic("t", 0, 0), wait_ms=5000)
            one, two = response.responses[0].partitions
            if one.records:
                break
            await asyncio.sleep(0.1)
        assert asks.offsets_in(one.records) == [0, 1]
        assert asks.offsets_in(two.records) in ([], [0, 1])
        assert one.error_code == two.error_code == ErrorCode.NONE


@in_world
async def test_a_partition_at_two_offsets_gives_each_its_own_records(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        asked = asks.fetch_topic("t", 0)
        asked.partitions += asks.fetch_topic("t", 0, offset=2).partitions
        for _ in range(5):
            response = await asks.fetch_all(served, asked, wait_ms=5000)
            one, two = response.responses[0].partitions
            assert asks.offsets_in(one.records) in ([], [0, 1])
            assert asks.offsets_in(two.records) in ([], [2, 3])
            await asyncio.sleep(1)


@in_world
async def test_what_has_arrived_is_not_read_again_while_the_fetch_waits(lives: Lives) -> None:
    """More than there is cannot arrive from a bucket: the fetch ends with what it has."""
    async with lives.node() as served:
        await served.tiered("t", partitions=2)
        await served.make_cold("t", b"a", index=0)
        await served.make_cold("t", b"b", index=1)
        before_s = asyncio.get_running_loop().time()
        asked = asks.fetch_topic("t", 0, 1)
        response = await asks.fetch_all(served, asked, wait_ms=60_000, min_bytes=100_000)
        got = [asks.offsets_in(one.records) for one in response.responses[0].partitions]
        assert got == [[0], [0]]
        assert asyncio.get_running_loop().time() - before_s < 5
        assert served.node.proxy is not None
        assert served.node.proxy.stats.reads == 2


@in_world
async def test_what_arrives_first_waits_for_what_arrives_later(lives: Lives) -> None:
    """`min_bytes` is more than either partition has."""
    async with lives.node() as served:
        await served.tiered("t", partitions=2)
        for index in range(2):
            await served.make_cold("t", b"x" * 1000, index=index)
        await served.values("t", index=0)
        proxy = served.node.proxy
        assert proxy is not None
        before = proxy.stats.reads
        lives.store.is_open.clear()
        asked = asks.fetch_topic("t", 0, 1)
        fetching = asyncio.ensure_future(
            asks.fetch_all(served, asked, wait_ms=60_000, min_bytes=1500)
        )
        await asyncio.sleep(5)
        assert not fetching.done()
        lives.store.is_open.set()
        (topic,) = (await asyncio.wait_for(fetching, 5)).responses
        assert [asks.offsets_in(one.records) for one in topic.partitions] == [[0], [0]]
        assert proxy.stats.reads == before + 2


@in_world
async def test_with_too_many_reads_under_way_a_fetch_is_empty_in_the_end(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        with at_most(served, 0):
            before_s = asyncio.get_running_loop().time()
            answer = await asks.fetch(served, asks.fetch_topic("t"), wait_ms=300)
            assert (answer.error_code, answer.records) == (ErrorCode.NONE, b"")
            assert 0.29 < asyncio.get_running_loop().time() - before_s < 0.5
        assert (await served.values("t"))[0] == b"a"


@in_world
async def test_what_was_too_much_is_asked_for_when_other_reads_have_ended(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", partitions=3)
        for index in range(3):
            await served.make_cold("t", b"v%d" % index, index=index)
        with at_most(served, 1):
            asked = asks.fetch_topic("t", 0, 1, 2)
            response = await asks.fetch_all(served, asked, wait_ms=60_000, min_bytes=10_000)
        (topic,) = response.responses
        assert [asks.offsets_in(one.records) for one in topic.partitions] == [[0]] * 3


@contextmanager
def at_most(served: ColdServed, reads: int) -> Iterator[None]:
    """Cold reads under way."""
    proxy = served.node.proxy
    assert proxy is not None
    settings = proxy._settings
    with patch.object(proxy, "_settings", replace(settings, reads_max=reads)):
        yield


@in_world
async def test_the_other_partitions_of_a_fetch_are_downloaded_beside_it(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", partitions=4)
        for index in range(4):
            await served.make_cold("t", b"v%d" % index, index=index)
        lives.store.is_open.clear()
        asked = asks.fetch_topic("t", 0, 1, 2, 3)
        fetching = asyncio.ensure_future(asks.fetch_all(served, asked, wait_ms=5000, min_bytes=250))
        await until(lambda: lives.store.held >= 4)
        lives.store.is_open.set()
        (topic,) = (await fetching).responses
        assert [asks.offsets_in(one.records) for one in topic.partitions] == [[0]] * 4


@in_world
async def test_a_hot_partition_does_not_wait_for_a_cold_one(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        await served.tiered("hot")
        await served.append("hot", b"now")
        lives.store.is_open.clear()
        topics = asks.fetch_topic("t"), asks.fetch_topic("hot")
        cold, hot = (await asks.fetch_all(served, *topics, wait_ms=5000)).responses
        assert asks.offsets_in(hot.partitions[0].records) == [0]
        assert cold.partitions[0].records == b""
        lives.store.is_open.set()


@in_world
async def test_more_than_there_is_is_waited_for_over_both_tiers(lives: Lives) -> None:
    """`min_bytes` counts what is cold and what is hot; with too little, the time must pass."""
    async with lives.node() as served:
        await with_both_tiers(served)
        await served.tiered("hot")
        await served.append("hot", b"now")
        lives.store.is_open.clear()
        topics = asks.fetch_topic("t"), asks.fetch_topic("hot")
        fetching = asyncio.ensure_future(
            asks.fetch_all(served, *topics, wait_ms=60_000, min_bytes=200)
        )
        await until(lambda: lives.store.held)
        await asyncio.sleep(1)
        assert not fetching.done(), "one record is not enough"
        lives.store.is_open.set()
        cold, hot = (await asyncio.wait_for(fetching, 30)).responses
        assert asks.offsets_in(cold.partitions[0].records) == [0, 1]
        assert asks.offsets_in(hot.partitions[0].records) == [0]


# Limits


@in_world
async def test_the_first_batch_comes_whole_however_small_the_limit(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"x" * 5000, b"y")
        for limits in ({"max_bytes": 1}, {}):
            asked = asks.fetch_topic("t", bytes_max=1)
            answer = await asks.fetch(served, asked, wait_ms=5000, **limits)
            assert asks.offsets_in(answer.records) == [0]


@in_world
async def test_a_large_batch_of_a_later_partition_waits_for_its_turn(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t", partitions=2)
        await served.make_cold("t", b"small", index=0)
        await served.make_cold("t", b"x" * 50_000, index=1)
        for _ in range(3):  # However much of it is in the cache.
            asked = asks.fetch_topic("t", 0, 1)
            response = await asks.fetch_all(served, asked, wait_ms=5000, max_bytes=1000)
            one, two = response.responses[0].partitions
            assert len(one.records or b"") + len(two.records or b"") < 51_000
            got = asks.offsets_in(one.records), asks.offsets_in(two.records)
            assert got in (([0], []), ([], [0]))
        alone = await asks.fetch(served, asks.fetch_topic("t", 1), wait_ms=5000, max_bytes=1000)
        assert asks.offsets_in(alone.records) == [0]


@in_world
async def test_many_batches_come_up_to_the_limit(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", *(b"x" * 1000 for _ in range(20)))
        answer = await asks.fetch(served, asks.fetch_topic("t", bytes_max=5000), wait_ms=5000)
        assert asks.offsets_in(answer.records) == [0, 1, 2, 3]


# Trouble


@in_world
async def test_a_store_that_is_away_is_told_as_an_error_to_try_again(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        lives.store.is_closed = True
        answer = await asks.fetch(served, asks.fetch_topic("t"), wait_ms=60_000)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert ErrorCode.KAFKA_STORAGE_ERROR.retriable
        assert not answer.records
        assert await served.values("t", 4) == [b"e", b"f"], "the disk serves on"
        lives.store.is_closed = False
        assert await served.values("t") == [b"a", b"b", b"c", b"d", b"e", b"f"]


@in_world
async def test_what_is_in_the_cache_is_served_while_the_store_is_away(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        await served.values("t")
        lives.store.is_closed = True
        assert (await served.values("t"))[:4] == [b"a", b"b", b"c", b"d"]


@in_world
async def test_an_object_that_is_gone_is_no_reason_to_skip_records(lives: Lives) -> None:
    """Not out of range: a consumer would take that for the end of what it may have."""
    async with lives.node() as served:
        await with_both_tiers(served)
        for key in [key for key in lives.bucket.shelf.items if "/seg/" in key]:
            del lives.bucket.shelf.items[key]
        answer = await asks.fetch(served, asks.fetch_topic("t"), wait_ms=60_000)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@in_world
async def test_bytes_that_are_not_those_uploaded_are_never_served(lives: Lives) -> None:
    async with lives.node() as served:
        await served.tiered("t")
        await served.make_cold("t", b"x" * 4000)
        lives.spoil_segments()
        codes = []
        for _ in range(CORRUPT_TELLS):
            answer = await asks.fetch(served, asks.fetch_topic("t"), wait_ms=60_000)
            assert not answer.records
            codes.append(answer.error_code)
        # Clients ask again at the first; at the other word Java's consumer raises.
        told = [ErrorCode.KAFKA_STORAGE_ERROR] * (CORRUPT_TELLS - 1)
        assert codes == [*told, ErrorCode.CORRUPT_MESSAGE]


@in_world
async def test_an_error_of_one_partition_comes_with_the_records_of_another(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        await served.tiered("hot")
        await served.append("hot", b"now")
        lives.store.is_closed = True
        topics = asks.fetch_topic("t"), asks.fetch_topic("hot")
        response = await asks.fetch_all(served, *topics, wait_ms=60_000, min_bytes=10_000)
        cold, hot = (one.partitions[0] for one in response.responses)
        assert cold.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (hot.error_code, asks.offsets_in(hot.records)) == (ErrorCode.NONE, [0])


@in_world
async def test_a_fetch_whose_topic_is_deleted_meanwhile_is_told(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
        lives.store.is_open.clear()
        fetching = asyncio.ensure_future(asks.fetch(served, asks.fetch_topic("t"), wait_ms=1000))
        await until(lambda: lives.store.held)
        await asks.delete(served, "t")
        lives.store.is_open.set()
        answer = await asyncio.wait_for(fetching, 30)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert not answer.records


@in_world
async def test_a_reader_of_another_leader_epoch_is_told_in_the_cold_tier_too(lives: Lives) -> None:
    async with lives.node() as served:
        await with_both_tiers(served)
    async with lives.node() as served:
        old = await asks.fetch(served, asks.fetch_topic("t", epoch=0), wait_ms=5000)
        assert old.error_code == ErrorCode.FENCED_LEADER_EPOCH
        right = await asks.fetch(served, asks.fetch_topic("t", epoch=1), wait_ms=5000)
        assert asks.offsets_in(right.records) == [0, 1]


@in_world
async def test_a_reader_that_has_more_of_an_epoch_than_there_is_is_told(lives: Lives) -> None:
    """KIP-595: epoch 0 ended at offset 6, of which four are cold."""
    async with lives.node() as served:
        await with_both_tiers(served)
    async with lives.node() as served:
        await served.make_cold("t", b"g")
        assert await diverging(served, last_epoch=0, offset=6) is None
        assert await diverging(served, last_epoch=0, offset=7) == (0, 6)
        assert await diverging(served, last_epoch=1, offset=7) is None


async def diverging(served: Served, *, last_epoch: int, offset: int) -> tuple[int, int] | None:
    ask = FetchPartition(
        partition=0,
        fetch_offset=offset,
        current_leader_epoch=-1,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=1 << 20,
    )
    answer = await asks.fetch(served, FetchTopic(topic="t", partitions=[ask]), wait_ms=100)
    assert answer.error_code == ErrorCode.NONE
    told = answer.diverging_epoch
    if told is None or told.end_offset < 0:
        return None
    return told.epoch, told.end_offset


@in_world
async def test_a_hot_producer_does_not_feel_a_replay_nor_a_store_that_is_stuck(
    lives: Lives,
) -> None:
    """Acknowledged as soon as ever, in virtual time: beside readers, and behind a closed gate."""
    async with lives.node() as served:
        await served.tiered("old", partitions=4)
        for index in range(4):
            await served.make_cold("old", *([b"x" * 4000] * 10), index=index)
        await served.create("hot")
        clock = served.node.env.clock

        async def produced() -> float:
            worst = 0.0
            for _ in range(20):
                began = clock.monotonic()
                await served.append("hot", b"now")
                worst = max(worst, clock.monotonic() - began)
            return worst

        async def replaying() -> None:
            while True:
                for index in range(4):
                    topic = asks.fetch_topic("old", index)
                    await asks.fetch(served, topic, wait_ms=1000)

        alone = await produced()
        replay = asyncio.ensure_future(replaying())
        beside = await produced()
        lives.store.is_open.clear()
        stuck = await produced()
        lives.store.is_open.set()
        replay.cancel()
        assert max(beside, stuck) <= 2 * alone + 1e-9
