from typing import TYPE_CHECKING

import pytest

from tests.fetchproxy.support import (
    SMALL,
    WHOLE_CHUNKS,
    BrokenPrefix,
    Prefix,
    Watched,
    begin,
    env_on,
    even_history,
    read,
    read_all,
    upload,
    whole,
)
from tierlog.errors import Kind
from tierlog.fetchproxy import ChunkCorrupt, ColdUnavailable, FetchProxy, ProxySettings
from tierlog.fetchproxy.damage import CORRUPT_TELLS
from tierlog.hot.errors import OffsetOutOfRange
from tierlog.objectstore.errors import NoSuchObject, StoreUnavailable
from tierlog.objectstore.port import Span
from tierlog.types import TimestampMs

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("proxy_settings", [SMALL, WHOLE_CHUNKS])
async def test_a_flipped_byte_is_asked_for_again_and_never_served(
    proxy_settings: ProxySettings,
) -> None:
    segments = even_history()
    proxy, prefix, store = await begin(segments, proxy_settings)
    lies = set()

    def flip_once(key: str, span: Span, data: bytes) -> bytes:
        if (key, span) in lies:
            return data
        lies.add((key, span))
        return data[:-1] + bytes([data[-1] ^ 1])

    store.spoil = flip_once
    assert await read_all(proxy, prefix) == whole(segments)
    assert proxy.stats.corrupt == len(lies)
    await proxy.close()


@pytest.mark.parametrize("proxy_settings", [SMALL, WHOLE_CHUNKS])
@pytest.mark.parametrize("what", ["cut", "flipped", "foreign"])
async def test_a_store_that_keeps_lying_is_an_error_and_nothing_is_kept(
    proxy_settings: ProxySettings, what: str
) -> None:
    segments = even_history()
    proxy, prefix, store = await begin(segments, proxy_settings)
    lies: dict[str, Callable[[bytes], bytes]] = {
        "cut": lambda data: data[:-1],
        "flipped": lambda data: data[:5] + bytes([data[5] ^ 128]) + data[6:],
        "foreign": lambda data: bytes(len(data)),
    }
    store.spoil = lambda _key, _span, data: lies[what](data)
    for _ in range(CORRUPT_TELLS - 1):
        with pytest.raises(ColdUnavailable) as healing:
            await read(proxy, prefix, 0, bytes_max=1000)
        assert isinstance(healing.value.__cause__, ChunkCorrupt)
    with pytest.raises(ChunkCorrupt) as caught:
        await read(proxy, prefix, 0, bytes_max=1000)
    assert caught.value.kind is Kind.CORRUPT
    store.spoil = None
    assert await read_all(proxy, prefix) == whole(segments)
    await proxy.close()


async def test_damage_that_a_reader_is_told_of_is_handed_on() -> None:
    heard: list[str] = []
    store = Watched()
    prefix = await upload(store, even_history())
    proxy = FetchProxy(env_on(), store, WHOLE_CHUNKS, "/data/cache", on_damage=heard.append)
    await proxy.start()
    first, second = (prefix.full_key(entry.key) for entry in prefix.entries)
    store.spoil = lambda _key, _span, data: bytes(len(data))
    for _ in range(CORRUPT_TELLS - 1):
        with pytest.raises(ColdUnavailable):
            await read(proxy, prefix, 0, bytes_max=1000)
    assert not heard
    with pytest.raises(ChunkCorrupt):
        await read(proxy, prefix, 0, bytes_max=1000)
    assert heard == [first]
    del store.shelf.items[second]
    with pytest.raises(ColdUnavailable):
        await read(proxy, prefix, prefix.entries[1].base, bytes_max=1000)
    assert heard == [first, second]
    await proxy.close()


async def test_bytes_that_heal_are_no_damage_and_are_forgotten() -> None:
    segments = even_history()
    proxy, prefix, store = await begin(segments, WHOLE_CHUNKS)
    for offset in (0, 17, 35):  # Of one object, a chunk each.
        store.spoil = lambda _key, _span, data: bytes(len(data))
        for _ in range(CORRUPT_TELLS - 1):
            with pytest.raises(ColdUnavailable):
                await read(proxy, prefix, offset, bytes_max=1000)
        store.spoil = None
        await read(proxy, prefix, offset, bytes_max=1000)
    await proxy.close()


class Moving(Prefix):
    """A manifest that changes while a read is under way: the object of the first plan is gone."""

    def __init__(self, before: Prefix, after: Prefix) -> None:
        super().__init__(before.entries)
        self._after = after

    def move(self) -> None:
        self.entries = self._after.entries
        self._log_start = self._after._log_start


async def test_a_segment_that_was_merged_meanwhile_is_planned_again() -> None:
    segments = even_history(segments=2, batches=20)
    proxy, prefix, store = await begin(segments)
    merged = await upload(store, [[*segments[0], *segments[1]]], folder="merged")
    moving = Moving(prefix, merged)

    def gone(key: str, _span: Span, data: bytes) -> bytes:
        if key in {prefix.full_key(entry.key) for entry in prefix.entries}:
            moving.move()
            raise NoSuchObject(key)
        return data

    store.spoil = gone
    assert await read_all(proxy, moving) == whole(segments)
    assert proxy.stats.planned_anew == 1
    assert proxy.stats.reads_failed == 0
    await proxy.close()


async def test_a_segment_that_expired_meanwhile_is_out_of_range() -> None:
    segments = even_history(segments=2, batches=20)
    proxy, prefix, store = await begin(segments)
    second = prefix.entries[1]
    moving = Moving(prefix, Prefix([second], log_start=second.base))

    def gone(key: str, _span: Span, data: bytes) -> bytes:
        if key == prefix.full_key(prefix.entries[0].key):
            moving.move()
            raise NoSuchObject(key)
        return data

    store.spoil = gone
    with pytest.raises(OffsetOutOfRange):
        await read(proxy, moving, 3, bytes_max=1000)
    assert len((await read(proxy, moving, int(second.base), bytes_max=1000)).records)
    assert proxy.stats.reads_failed == 0
    await proxy.close()


async def test_an_object_that_is_missing_though_the_manifest_names_it_is_an_error() -> None:
    proxy, prefix, store = await begin(even_history())
    store.fault = NoSuchObject("seg")
    with pytest.raises(ColdUnavailable):
        await read(proxy, prefix, 0, bytes_max=1000)
    assert proxy.stats.planned_anew == 0
    assert proxy.stats.reads_failed == 1
    await proxy.close()


@pytest.mark.parametrize("fault", [StoreUnavailable("503"), NoSuchObject("seg")])
async def test_a_store_that_fails_is_a_reason_to_ask_again(fault: Exception) -> None:
    segments = even_history()
    proxy, prefix, store = await begin(segments)
    store.fault = fault
    with pytest.raises(ColdUnavailable) as caught:
        await read(proxy, prefix, 0, bytes_max=1000)
    assert caught.value.kind is Kind.RETRY
    assert caught.value.__cause__ is fault
    assert proxy.memory_used == 0
    store.fault = None
    assert await read_all(proxy, prefix) == whole(segments)
    await proxy.close()


async def test_a_page_that_cannot_be_had_is_a_reason_to_ask_again() -> None:
    proxy, prefix, _ = await begin(even_history())
    broken = BrokenPrefix(prefix.entries)
    with pytest.raises(ColdUnavailable):
        await read(proxy, broken, 0, bytes_max=1)
    with pytest.raises(ColdUnavailable):
        await proxy.search_time(broken, TimestampMs(0))
    with pytest.raises(ColdUnavailable):
        await proxy.search_latest(broken)
    await proxy.close()
