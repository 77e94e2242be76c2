from dataclasses import replace
from random import Random

import pytest

from tests.fetchproxy.support import BLOCK, CHUNK, SMALL, HandClock, env_on, settled
from tierlog.env import Env
from tierlog.fetchproxy.chunks import REFUSED_PAUSE_S, ChunkCache, chunk_name
from tierlog.fetchproxy.pieces import FilePiece
from tierlog.fetchproxy.settings import ProxySettings
from tierlog.fetchproxy.stats import ProxyStats
from tierlog.objectstore.port import Span
from tierlog.sim.disk import SimDisk
from tierlog.types import Bytes, Position

DIGEST = "0123456789abcdef" * 2
TEN = replace(SMALL, cache_bytes=10 * CHUNK)


def chunk(number: int) -> tuple[str, Span, bytes]:
    span = Span(Position(number * CHUNK), Position((number + 1) * CHUNK))
    return chunk_name(DIGEST, span), span, Random(number).randbytes(CHUNK)


def is_right(span: Span, data: Bytes) -> int | None:
    """As a check of one block."""
    number = span.start // CHUNK
    start = span.start - number * CHUNK
    wanted = chunk(number)[2][start : start + span.size]
    return None if wanted == bytes(data) else span.start


async def begin(env: Env, chosen: ProxySettings = TEN) -> tuple[ChunkCache, ProxyStats]:
    stats = ProxyStats()
    cache = ChunkCache(env, "/data/cache", chosen, stats)
    await cache.start()
    return cache, stats


async def put(cache: ChunkCache, number: int) -> bool:
    name, _, data = chunk(number)
    return cache.reserve(CHUNK) and await cache.put(name, data)


async def opened(cache: ChunkCache, number: int) -> FilePiece | None:
    name, span, _ = chunk(number)
    return await cache.open(name, span, is_right)


def used_on(env: Env) -> int:
    names = env.disk.listdir("/data/cache")
    return sum(env.disk.size(f"/data/cache/{name}") for name in names)


async def test_the_cache_trims_itself_and_never_exceeds_its_budget() -> None:
    env = env_on()
    cache, stats = await begin(env)
    for number in range(100):
        assert await put(cache, number)
        await settled()
        assert used_on(env) <= TEN.cache_bytes
    assert stats.evicted >= 90
    assert cache.ledger.used <= TEN.cache_bytes * 9 // 10
    assert cache.has(chunk(99)[0])
    assert not cache.has(chunk(0)[0])


async def test_room_is_reserved_before_the_bytes_are_there() -> None:
    cache, _ = await begin(env_on())
    assert all(cache.reserve(CHUNK) for _ in range(10))
    assert not cache.reserve(1)
    cache.give_back(CHUNK)
    assert cache.reserve(CHUNK)


async def test_a_view_outlives_the_eviction_of_its_chunk() -> None:
    env = env_on()
    cache, _ = await begin(env)
    assert await put(cache, 0)
    piece = await opened(cache, 0)
    assert piece is not None
    for number in range(1, 30):
        await put(cache, number)
        await settled()
    assert not env.disk.exists(f"/data/cache/{chunk(0)[0]}")
    assert bytes(piece.view(CHUNK, 0)) == chunk(0)[2]


async def test_what_was_used_last_survives_a_restart_longest() -> None:
    env = env_on()
    cache, _ = await begin(env)
    for number in range(8):
        await put(cache, number)
    cache.ledger.touch(chunk(0)[0])
    await cache.close()
    again, _ = await begin(env)
    assert list(again.ledger)[-1] == chunk(0)[0]
    smaller, _ = await begin(env, replace(TEN, cache_bytes=4 * CHUNK))
    await settled()
    assert smaller.has(chunk(0)[0])
    assert not smaller.has(chunk(1)[0])
    assert used_on(env) <= 4 * CHUNK + BLOCK


async def test_leftovers_of_a_crash_are_removed_at_the_start() -> None:
    env = env_on()
    env.disk.mkdir("/data/cache")
    env.disk.open(f"/data/cache/{chunk(0)[0]}.7.tmp", create=True).close()
    cache, _ = await begin(env)
    assert env.disk.listdir("/data/cache") == []
    assert len(cache.ledger) == 0


@pytest.mark.parametrize("torn", [0, BLOCK + 1, CHUNK - 1])
async def test_a_file_that_a_power_cut_tore_is_dropped(torn: int) -> None:
    env = env_on()
    cache, _ = await begin(env)
    name, span, _ = chunk(3)
    await put(cache, 3)
    file = env.disk.open(f"/data/cache/{name}", write=True)
    file.truncate(torn)
    file.close()
    again, stats = await begin(env)
    assert await again.open(name, span, is_right) is None
    assert stats.dropped == 1
    assert not env.disk.exists(f"/data/cache/{name}")
    assert not again.has(name)


async def test_a_sound_file_opens_and_one_that_vanished_does_not() -> None:
    env = env_on()
    cache, _ = await begin(env)
    await put(cache, 1)
    await put(cache, 2)
    again, _ = await begin(env)
    name, span, data = chunk(1)
    piece = await again.open(name, span, is_right)
    assert piece is not None
    assert bytes(piece.pread(CHUNK, span.start)) == data
    gone, gone_span, _ = chunk(2)
    env.disk.unlink(f"/data/cache/{gone}")
    assert await again.open(gone, gone_span, is_right) is None


async def test_a_full_disk_is_not_written_to_again_for_a_while() -> None:
    clock = HandClock()
    disk = SimDisk(capacity=3 * CHUNK)
    env = env_on(disk, clock)
    cache, _ = await begin(env)
    kept = 0
    while await put(cache, kept):
        kept += 1
    assert 1 <= kept <= 3
    assert not any(name.endswith(".tmp") for name in disk.listdir("/data/cache"))
    assert cache.reserved == 0
    assert not cache.reserve(1)
    clock.seconds += REFUSED_PAUSE_S
    assert cache.reserve(1)


async def test_only_so_many_files_stay_open() -> None:
    cache, _ = await begin(env_on(), replace(TEN, open_chunks_max=2))
    for number in range(5):
        await put(cache, number)
        assert await opened(cache, number)
    assert [number for number in range(5) if cache.opened(chunk(number)[0])] == [3, 4]
    assert all(cache.has(chunk(number)[0]) for number in range(5))


async def test_what_was_just_written_is_read_and_checked_like_everything_else() -> None:
    env = env_on()
    cache, stats = await begin(env)
    assert await put(cache, 1)
    name, _, _ = chunk(1)
    assert cache.opened(name) is None
    file = env.disk.open(f"/data/cache/{name}", write=True)
    file.pwrite(b"rot", 100)
    file.close()
    assert await opened(cache, 1) is None
    assert stats.dropped == 1
