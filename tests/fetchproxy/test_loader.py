"""Chunks between the store, memory and the disk."""

from dataclasses import replace

from tests.fetchproxy.support import CHUNK, WHOLE_CHUNKS, begin, even_history, read, settled
from tierlog.fetchproxy.chunks import WRITES_MAX


async def test_a_chunk_is_served_before_the_disk_has_it() -> None:
    proxy, prefix, store = await begin(even_history(), WHOLE_CHUNKS)
    writers = proxy.cache._writers
    for _ in range(WRITES_MAX):
        await writers.acquire()
    got = await read(proxy, prefix, 0, bytes_max=500)
    assert len(got.records)
    assert len(proxy.cache.ledger) == 0
    asked = len(store.gets)
    await read(proxy, prefix, 0, bytes_max=500)
    assert len(store.gets) == asked
    for _ in range(WRITES_MAX):
        writers.release()
    await settled()
    assert len(proxy.cache.ledger) > 0
    assert proxy.loader.keeping.used == 0
    await proxy.close()


async def test_chunks_on_their_way_to_a_slow_disk_are_bounded() -> None:
    proxy, prefix, _ = await begin(even_history(segments=12, batches=100), WHOLE_CHUNKS)
    writers = proxy.cache._writers
    for _ in range(WRITES_MAX):
        await writers.acquire()
    reads = [proxy.read(prefix, each.base, bytes_max=500) for each in prefix.entries]
    await settled()
    assert 0 < proxy.loader.keeping.used <= WHOLE_CHUNKS.keeping_bytes_max
    for _ in range(WRITES_MAX):
        writers.release()
    for each in reads:
        await each  # type: ignore[misc]  # None of them had its bytes here.
    assert proxy.loader.keeping.used_peak <= WHOLE_CHUNKS.keeping_bytes_max
    await proxy.close()


async def test_readers_without_a_disk_fetch_nothing_twice() -> None:
    """Read-ahead that pushed itself out of memory would."""
    segments = even_history(segments=6, batches=200)
    bare = replace(WHOLE_CHUNKS, cache_bytes=0, memory_bytes=24 * CHUNK)
    proxy, prefix, store = await begin(segments, bare)
    places = {each.base: each for each in prefix.entries[::2]}
    at = {base: int(base) for base in places}
    while not all(at[base] >= each.next_offset for base, each in places.items()):
        for base, each in places.items():
            if at[base] < each.next_offset:
                at[base] = (await read(proxy, prefix, at[base], bytes_max=500)).next_offset
    assert len(store.gets) == len(set(store.gets))
    await proxy.close()
