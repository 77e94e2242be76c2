from typing import TYPE_CHECKING

import pytest

from tests.fetchproxy.support import (
    SMALL,
    WHOLE_CHUNKS,
    BrokenPrefix,
    begin,
    even_history,
    read,
    read_all,
    whole,
)
from tierlog.errors import Kind
from tierlog.fetchproxy import ChunkCorrupt, ColdUnavailable, ProxySettings
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
    with pytest.raises(ChunkCorrupt) as caught:
        await read(proxy, prefix, 0, bytes_max=1000)
    assert caught.value.kind is Kind.CORRUPT
    store.spoil = None
    assert await read_all(proxy, prefix) == whole(segments)
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
