"""Prewarming: what it takes is known before, only free room is used, and readers find it."""

import asyncio
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.fetchproxy.support import (
    CHUNK,
    WHOLE_CHUNKS,
    Prefix,
    begin,
    even_history,
    read_all,
    settled,
    whole,
)
from tierlog.fetchproxy import FetchProxy, Wish
from tierlog.fetchproxy.coldsegment import ColdSegment
from tierlog.fetchproxy.prewarm import CLIENT, Prewarmed, span_of
from tierlog.objectstore.errors import StoreUnavailable
from tierlog.records.batch import iter_batches
from tierlog.types import Offset


def wish(prefix: Prefix, start: int = 0, end: int = 1 << 40) -> list[Wish]:
    return [Wish(prefix, Offset(start), Offset(end))]


async def ran(proxy: FetchProxy, wishes: list[Wish], **limits: int) -> Prewarmed:
    run = proxy.prewarm(wishes, **limits)
    await run.run()
    await settled()
    return run.state


async def test_a_range_is_loaded_as_priced_and_read_without_a_get() -> None:
    segments = even_history()
    proxy, prefix, store = await begin(segments, WHOLE_CHUNKS)
    priced = await proxy.prewarm(wish(prefix)).price()
    assert not store.gets
    done = await ran(proxy, wish(prefix))
    assert (done.loaded_bytes, done.gets) == (priced.loaded_bytes, priced.gets)
    assert done.gets == len(store.gets) == proxy.clients.of(CLIENT).gets
    assert done.loaded_bytes == done.bytes == len(whole(segments))
    assert (done.left_bytes, done.here_bytes, done.error) == (0, 0, None)
    assert proxy.loader.unread_bytes == 0
    asked = len(store.gets)
    assert await read_all(proxy, prefix) == whole(segments)
    assert len(store.gets) == asked
    again = await ran(proxy, wish(prefix))
    assert (again.here_bytes, again.gets) == (again.bytes, 0)
    await proxy.close()


async def test_it_loads_no_more_than_its_budget_and_tells_the_rest() -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    done = await ran(proxy, wish(prefix), bytes_max=2 * CHUNK)
    assert 0 < done.loaded_bytes <= 2 * CHUNK
    assert done.loaded_bytes + done.left_bytes == done.bytes
    data = sum(span.size for key, span in store.gets if span.start < prefix.entries[0].data_bytes)
    assert data <= 2 * CHUNK
    await proxy.close()


async def test_nothing_that_is_cached_leaves_for_it() -> None:
    segments = even_history(segments=6, batches=40)
    proxy, prefix, _ = await begin(segments, replace(WHOLE_CHUNKS, cache_bytes=12 * CHUNK))
    last = prefix.entries[-1].base
    await read_all(proxy, prefix, start=last)
    await settled()
    before = set(proxy.cache.ledger)
    done = await ran(proxy, wish(prefix, 0, last))
    assert done.left_bytes > 0
    assert before <= set(proxy.cache.ledger)
    assert proxy.stats.evicted == 0
    await proxy.close()


async def test_a_store_that_fails_ends_it_with_a_sentence() -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    store.fault = StoreUnavailable("503 slow down")
    done = await ran(proxy, wish(prefix))
    assert done.done
    assert done.error is not None
    assert "503 slow down" in done.error
    await proxy.close()


async def test_one_chunk_of_ten_that_fails_ends_it_and_is_not_loaded() -> None:
    segments = even_history(segments=1, batches=98)
    proxy, prefix, store = await begin(segments, WHOLE_CHUNKS)
    priced = await proxy.prewarm(wish(prefix)).price()
    assert priced.loaded_bytes > 9 * CHUNK
    failing = 4 * CHUNK
    store.spoil = lambda _, span, data: data[::-1] if span.start == failing else data
    done = await ran(proxy, wish(prefix))
    assert done.error is not None
    assert "not the bytes that were uploaded" in done.error
    kept = [one for one in range(10) if proxy.loader.is_kept(first_segment(proxy, prefix), one)]
    assert 4 not in kept
    assert 4 <= len(kept) < 9
    assert done.loaded_bytes == len(kept) * CHUNK
    assert done.left_bytes == 0
    await proxy.close()


async def test_the_budget_counts_what_is_under_way() -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    store.gate = asyncio.Event()
    run = proxy.prewarm(wish(prefix), bytes_max=CHUNK)
    running = asyncio.ensure_future(run.run())
    await settled()
    assert run.state.loaded_bytes == 0
    store.gate.set()
    await running
    assert run.state.loaded_bytes == CHUNK
    await proxy.close()


async def test_the_later_part_of_a_plan_has_the_room_that_the_earlier_left() -> None:
    settings = replace(WHOLE_CHUNKS, cache_bytes=12 * CHUNK)
    proxy, prefix, _ = await begin(even_history(segments=6, batches=40), settings)
    free = proxy.cache.free_bytes
    part = await proxy.prewarm(wish(prefix), taken_bytes=free - 3 * CHUNK).price()
    assert 0 < part.loaded_bytes <= 3 * CHUNK
    await proxy.close()


def first_segment(proxy: FetchProxy, prefix: Prefix) -> ColdSegment:
    entry = prefix.entries[0]
    return proxy.loader.segment(prefix.full_key(entry.key), entry)


@given(st.integers(0, 90), st.integers(0, 90))
async def test_the_plan_of_a_range_holds_all_of_its_batches(one: int, other: int) -> None:
    start, end = sorted((one, other))
    proxy, prefix, _ = await begin(even_history(segments=2, batches=45), WHOLE_CHUNKS)
    for number, batches in enumerate(even_history(segments=2, batches=45)):
        entry = prefix.entries[number]
        span = span_of(entry, Offset(max(start, entry.base)), Offset(end))
        data = b"".join(batches)
        for position, header in iter_batches(data):
            if start <= header.last_offset and header.base_offset < end:
                assert span.start <= position
                assert position + header.size_bytes <= span.end
    await proxy.close()
