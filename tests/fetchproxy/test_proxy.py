import asyncio
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fetchproxy.support import (
    BLOCK,
    CHUNK,
    SMALL,
    WHOLE_CHUNKS,
    Watched,
    begin,
    count_rounds,
    env_on,
    even_history,
    history,
    read,
    read_all,
    settled,
    upload,
    whole,
)
from tierlog.fetchproxy import ColdRead, FetchProxy, ProxySettings, TooManyReads
from tierlog.fetchproxy.batches import Walk
from tierlog.fetchproxy.pieces import Run
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.records.batch import iter_batches
from tierlog.types import Offset

BATCH_SIZES = st.lists(st.integers(0, 900), min_size=1, max_size=4)
SEGMENT_SIZES = st.lists(
    st.one_of(BATCH_SIZES, st.lists(st.integers(3000, 11000), min_size=1, max_size=1)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=80)
@given(
    sizes=st.lists(SEGMENT_SIZES, min_size=1, max_size=3),
    limits=st.lists(st.integers(0, 20000), min_size=1, max_size=5),
    starts=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3),
    lead=st.booleans(),
    cache_chunks=st.integers(0, 12),
)
def test_every_reader_gets_exactly_the_batches_that_were_uploaded(
    sizes: list[list[list[int]]],
    limits: list[int],
    starts: list[float],
    lead: bool,
    cache_chunks: int,
) -> None:
    segments = history(Random(1), segment_sizes=sizes)
    everything = whole(segments)
    places = {
        offset: position
        for position, header in iter_batches(everything)
        for offset in range(header.base_offset, header.next_offset)
    }
    sizes_of = {position: header.size_bytes for position, header in iter_batches(everything)}
    chosen = replace(SMALL if lead else WHOLE_CHUNKS, cache_bytes=cache_chunks * CHUNK)

    async def check() -> None:
        proxy, prefix, _ = await begin(segments, chosen)
        for start in starts:
            offset = Offset(int(start * len(places)))
            position = places[offset]
            turn = 0
            while offset < prefix.head.next_offset:
                bytes_max = limits[turn % len(limits)]
                got = await read(proxy, prefix, offset, bytes_max=bytes_max)
                found = bytes(got.records) + bytes(got.more)
                size = len(found)
                assert found == everything[position : position + size]
                assert size <= max(bytes_max, sizes_of[position])
                position += size
                offset = got.next_offset
                assert places.get(offset, len(everything)) == position
                turn += 1
            assert position == len(everything)
        assert proxy.loader.budget.used_peak <= max(
            chosen.flight_bytes_max, max(map(max, (map(max, one) for one in sizes)))
        )
        assert proxy.loader.held.used_peak <= chosen.held_bytes_max
        await proxy.close()

    asyncio.run(check())


async def test_a_batch_larger_than_chunks_is_one_answer() -> None:
    segments = history(Random(1), segment_sizes=[[[100], [3 * CHUNK], [100]]])
    proxy, prefix, _ = await begin(segments)
    got = await read(proxy, prefix, 1, bytes_max=1)
    assert bytes(got.records) == segments[0][1]
    assert (got.base_offset, got.next_offset) == (1, 2)
    await proxy.close()


async def test_what_one_reader_was_answered_the_next_is_with_fewer_looks_at_the_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    class Counted(Walk):
        def __init__(self, key: str, run: Run) -> None:
            nonlocal looks
            looks += 1
            super().__init__(key, run)

    monkeypatch.setattr("tierlog.fetchproxy.proxy.Walk", Counted)
    segments = even_history(batches=200)
    proxy, prefix, _ = await begin(segments, WHOLE_CHUNKS)
    assert await read_all(proxy, prefix) == whole(segments)
    await settled()
    first, looks = looks, 0
    assert await read_all(proxy, prefix) == whole(segments)
    second, looks = looks, 0
    assert await read_all(proxy, prefix, bytes_max=1000) == whole(segments)
    assert second < first / 2
    assert looks > second  # Another limit has other answers.
    await proxy.close()


async def test_a_reader_goes_over_the_borders_of_chunks_without_waiting_or_copies() -> None:
    segments = even_history(batches=200)
    proxy, prefix, _ = await begin(segments, WHOLE_CHUNKS)
    assert await read_all(proxy, prefix) == whole(segments)
    await settled()
    stats = proxy.stats
    before, offset, in_two = stats.reads - stats.reads_at_once, 0, 0
    while offset < prefix.head.next_offset:
        got = await read(proxy, prefix, offset, bytes_max=1024)
        in_two += bool(got.more)
        offset = got.next_offset
    chunks = sum(-(-entry.data_bytes // CHUNK) for entry in prefix.entries)
    assert in_two >= chunks // 2  # Batches do not end where chunks do.
    assert stats.joined == 0
    later = stats.reads - stats.reads_at_once - before
    assert later <= chunks  # Opening a chunk; never its border.
    await proxy.close()


async def test_the_seam_is_never_passed() -> None:
    segments = even_history(segments=2)
    proxy, prefix, _ = await begin(segments)
    end = prefix.head.next_offset
    got = await read(proxy, prefix, end - 1, bytes_max=1 << 20)
    assert got.next_offset == end
    with pytest.raises(OffsetOutOfRange):
        await read(proxy, prefix, end, bytes_max=1 << 20)
    await proxy.close()


@pytest.mark.parametrize("offset", [0, 1, 7, 39, 40, 63, 79])
async def test_the_first_record_of_a_cold_offset_takes_at_most_two_round_trips(offset: int) -> None:
    proxy, prefix, store = await begin(even_history())
    rounds, got = await count_rounds(store, read(proxy, prefix, offset, bytes_max=1))
    assert got.base_offset == offset
    assert rounds <= 2
    await proxy.close()


@settings(max_examples=40)
@given(sizes=SEGMENT_SIZES, where=st.floats(0, 1, exclude_max=True))
def test_whatever_the_batches_two_round_trips_reach_the_first_record(
    sizes: list[list[int]], where: float
) -> None:
    async def check() -> None:
        segments = history(Random(1), segment_sizes=[sizes])
        proxy, prefix, store = await begin(segments)
        offset = int(where * prefix.head.next_offset)
        rounds, got = await count_rounds(store, read(proxy, prefix, offset, bytes_max=1))
        assert got.base_offset <= offset < got.next_offset
        assert rounds <= 2
        await proxy.close()

    asyncio.run(check())


async def test_with_even_batches_the_guess_is_right_and_one_round_trip_is_enough() -> None:
    segments = even_history(batches=600, value_bytes=1)
    proxy, prefix, store = await begin(segments)
    rounds = []
    for offset in range(0, 1200, 19):
        fresh = FetchProxy(env_on(), store, SMALL, "/data/cache")
        await fresh.start()
        rounds.append((await count_rounds(store, read(fresh, prefix, offset, bytes_max=1)))[0])
        await fresh.close()
    assert rounds.count(1) >= 0.9 * len(rounds)
    await proxy.close()


async def test_a_first_look_fetches_blocks_and_not_chunks() -> None:
    wide = replace(SMALL, chunk_bytes=16 * BLOCK, memory_bytes=64 * BLOCK)
    proxy, prefix, _ = await begin(even_history(batches=200), wide)
    await read(proxy, prefix, 100, bytes_max=1)
    await settled()
    assert proxy.stats.chunk_gets == 0
    assert proxy.stats.get_bytes <= 4 * BLOCK + 20_000
    await proxy.close()


async def test_fifty_readers_of_the_same_history_fetch_each_chunk_once() -> None:
    segments = even_history(segments=3)
    proxy, prefix, store = await begin(segments, WHOLE_CHUNKS)
    answers = await asyncio.gather(*(read_all(proxy, prefix) for _ in range(50)))
    assert set(answers) == {whole(segments)}
    assert len(store.gets) == len(set(store.gets))
    await proxy.close()


async def test_a_second_replay_asks_the_store_for_nothing() -> None:
    segments = even_history()
    proxy, prefix, store = await begin(segments, WHOLE_CHUNKS)
    await read_all(proxy, prefix)
    await settled()
    asked = len(store.gets)
    assert await read_all(proxy, prefix) == whole(segments)
    assert len(store.gets) == asked
    await proxy.close()


async def test_the_cache_survives_a_restart_and_needs_no_store() -> None:
    segments = even_history()
    store = Watched()
    prefix = await upload(store, segments)
    env = env_on()
    first = FetchProxy(env, store, WHOLE_CHUNKS, "/data/cache")
    await first.start()
    await read_all(first, prefix)
    await settled()
    await first.close()

    store.fault = StoreUnavailable("down")
    second = FetchProxy(env, store, WHOLE_CHUNKS, "/data/cache")
    await second.start()
    assert await read_all(second, prefix) == whole(segments)
    await second.close()


async def test_a_cached_file_that_rots_is_dropped_and_fetched_again() -> None:
    segments = even_history()
    store = Watched()
    prefix = await upload(store, segments)
    env = env_on()
    first = FetchProxy(env, store, WHOLE_CHUNKS, "/data/cache")
    await first.start()
    await read_all(first, prefix)
    await settled()
    await first.close()
    for name in env.disk.listdir("/data/cache"):
        file = env.disk.open(f"/data/cache/{name}", write=True)
        file.pwrite(b"?", 10)
        file.close()

    second = FetchProxy(env, store, WHOLE_CHUNKS, "/data/cache")
    await second.start()
    assert await read_all(second, prefix) == whole(segments)
    assert second.stats.dropped > 2
    await second.close()


@pytest.mark.parametrize("proxy_settings", [SMALL, WHOLE_CHUNKS])
async def test_bytes_that_come_late_are_there_for_the_next_read(
    proxy_settings: ProxySettings,
) -> None:
    proxy, prefix, store = await begin(even_history(), proxy_settings)
    store.gate = asyncio.Event()
    late = proxy.read(prefix, Offset(30), bytes_max=100)
    assert not isinstance(late, ColdRead)
    await settled()
    late.cancel()
    await settled()
    store.gate.set()
    await settled()
    asked = len(store.gets)
    got = await read(proxy, prefix, 30, bytes_max=100)
    assert got.base_offset == 30
    assert len(store.gets) == asked
    await proxy.close()


async def test_a_reader_that_reads_on_is_answered_at_once() -> None:
    proxy, prefix, _ = await begin(even_history(batches=200))
    offset = 0
    waits = 0
    while offset < 300:
        found = proxy.read(prefix, Offset(offset), bytes_max=1000)
        waits += not isinstance(found, ColdRead)
        got = found if isinstance(found, ColdRead) else await found
        offset = got.next_offset
        await settled()
    # The start, the end of the segment, and batches that lie across chunks.
    assert waits <= 3 + proxy.stats.joined
    assert proxy.stats.ahead_gets > 10
    await proxy.close()


async def test_read_ahead_crosses_the_border_of_segments() -> None:
    proxy, prefix, store = await begin(even_history(segments=4, batches=10), WHOLE_CHUNKS)
    for offset in (0, 2, 4, 6):
        await read(proxy, prefix, offset, bytes_max=1000)
        await settled()
    asked = {key for key, _ in store.gets}
    assert prefix.full_key(prefix.entries[1].key) in asked
    await proxy.close()


async def test_read_ahead_stops_when_the_reader_does() -> None:
    segments = even_history(segments=2, batches=400)
    proxy, prefix, store = await begin(segments, WHOLE_CHUNKS)
    got = await read(proxy, prefix, 0, bytes_max=1000)
    for _ in range(60):
        got = await read(proxy, prefix, got.next_offset, bytes_max=1000)
    await settled()
    asked = sum(span.size for _, span in store.gets)
    consumed = proxy.stats.read_bytes
    assert consumed < asked <= consumed + WHOLE_CHUNKS.readahead_bytes_max + 4 * CHUNK
    await settled()
    assert asked == sum(span.size for _, span in store.gets)
    await proxy.close()


async def test_in_flight_for_one_fetch_is_at_most_twice_its_limit() -> None:
    proxy, prefix, store = await begin(even_history(segments=4, batches=200), WHOLE_CHUNKS)
    limit = 2 * CHUNK
    allowance = proxy.allowance(limit)
    offset = 0
    while offset < prefix.head.next_offset:
        found = proxy.read(prefix, Offset(offset), bytes_max=limit, allowance=allowance)
        got = found if isinstance(found, ColdRead) else await found
        offset = got.next_offset
        await asyncio.sleep(0)  # The next fetch comes with another turn of the loop.
    assert allowance.used_peak <= 2 * limit
    assert store.under_way_bytes_peak <= 2 * limit + BLOCK * 20
    await proxy.close()


async def test_many_readers_stay_within_the_memory_of_the_node() -> None:
    tight = replace(WHOLE_CHUNKS, memory_bytes=4 * CHUNK, cache_bytes=0)
    segments = even_history(segments=6, batches=100)
    proxy, prefix, store = await begin(segments, tight)
    starts = [number * 37 % 600 for number in range(40)]
    await asyncio.gather(*(read(proxy, prefix, start, bytes_max=500) for start in starts))
    assert proxy.loader.budget.used_peak <= tight.flight_bytes_max
    assert proxy.loader.held.used_peak <= tight.held_bytes_max
    assert store.under_way_bytes_peak <= tight.flight_bytes_max + 6 * 20 * BLOCK
    await proxy.close()


async def test_without_room_on_the_disk_chunks_are_served_from_memory() -> None:
    segments = even_history(segments=3)
    store = Watched()
    prefix = await upload(store, segments)
    env = env_on()
    proxy = FetchProxy(env, store, replace(WHOLE_CHUNKS, disk_free_min=1 << 50), "/data/cache")
    await proxy.start()
    assert await read_all(proxy, prefix, bytes_max=500) == whole(segments)
    assert proxy.stats.not_cached > 0
    chunks = sum(-(-entry.data_bytes // CHUNK) for entry in prefix.entries)
    assert proxy.stats.chunk_gets <= chunks + 3
    await proxy.close()


# Reads under way


async def test_reads_of_one_place_share_one_read() -> None:
    segments = even_history()
    proxy, prefix, store = await begin(segments)
    store.gate = asyncio.Event()
    before = len(asyncio.all_tasks())
    reads = [proxy.read(prefix, Offset(0), bytes_max=1000) for _ in range(500)]
    await settled()
    assert len(asyncio.all_tasks()) - before < 5
    for gone in reads[:100]:
        assert isinstance(gone, asyncio.Future)
        gone.cancel()  # Who goes away takes nothing from the others.
    store.gate.set()
    found = [await one for one in reads[100:] if isinstance(one, asyncio.Future)]
    assert len(found) == 400
    assert {bytes(one.records) for one in found} == {whole(segments)[: len(found[0].records)]}
    assert proxy.stats.reads == 1
    assert proxy.stats.reads_shared == 499
    await proxy.close()


async def test_reads_of_other_places_and_sizes_have_their_own_answers() -> None:
    proxy, prefix, store = await begin(even_history())
    store.gate = asyncio.Event()
    asked = [(0, 500), (0, 1000), (1, 500)]
    reads = [proxy.read(prefix, Offset(offset), bytes_max=size) for offset, size in asked]
    store.gate.set()
    found = [await one for one in reads if isinstance(one, asyncio.Future)]
    assert [(one.base_offset, one.next_offset) for one in found] == [(0, 1), (0, 2), (1, 2)]
    await proxy.close()


async def test_no_more_reads_than_allowed_are_under_way() -> None:
    proxy, prefix, store = await begin(even_history(), replace(SMALL, reads_max=2))
    store.gate = asyncio.Event()
    reads = [proxy.read(prefix, Offset(offset), bytes_max=500) for offset in (0, 20)]
    shared = proxy.read(prefix, Offset(20), bytes_max=500)
    with pytest.raises(TooManyReads):
        proxy.read(prefix, Offset(30), bytes_max=500)
    store.gate.set()
    for waited in (*reads, shared):
        assert isinstance(waited, asyncio.Future)
        await waited
    await settled()
    assert (await read(proxy, prefix, 30, bytes_max=500)).base_offset == 30
    await proxy.close()
