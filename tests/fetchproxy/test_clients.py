"""Who is counted for what, and that the sums are those of the node."""

from dataclasses import replace
from functools import partial

import pytest

from tests.fetchproxy.support import (
    CHUNK,
    SMALL,
    WHOLE_CHUNKS,
    begin,
    even_history,
    settled,
    whole,
)
from tierlog.fetchproxy import ColdRead, FetchProxy
from tierlog.fetchproxy.clients import OTHER, Clients, Price, Who
from tierlog.fetchproxy.port import ColdPrefix
from tierlog.types import Offset


async def read_as(proxy: FetchProxy, prefix: ColdPrefix, client: str, *, end: int) -> int:
    """The bytes of a whole pass."""
    offset = size = 0
    while offset < end:
        found = proxy.read(prefix, Offset(offset), bytes_max=1000, client=client)
        got = found if isinstance(found, ColdRead) else await found
        offset = got.next_offset
        size += len(got.records) + len(got.more)
    return size


async def test_each_client_counts_what_it_read_and_what_was_fetched_for_it() -> None:
    segments = even_history()
    proxy, prefix, store = await begin(segments, WHOLE_CHUNKS)
    end = prefix.head.next_offset
    assert await read_as(proxy, prefix, "first", end=end) == len(whole(segments))
    await settled()
    asked = list(store.gets)
    assert await read_as(proxy, prefix, "second", end=end) == len(whole(segments))
    first, second = proxy.clients.of("first"), proxy.clients.of("second")
    assert first.read_bytes == second.read_bytes == len(whole(segments))
    assert first.gets == len(asked) == len(store.gets)
    assert first.get_bytes == sum(span.size for _, span in asked)
    assert (second.gets, second.get_bytes) == (0, 0)
    assert second.hits == second.reads
    assert first.unread_bytes == second.unread_bytes == 0
    assert first.reads + second.reads == proxy.stats.reads
    await proxy.close()


async def test_what_a_gone_reader_prefetched_is_bounded_and_counted_as_waste() -> None:
    """It reads some chunks and goes; a replay of the rest then flows through the cache."""
    small_cache = replace(WHOLE_CHUNKS, cache_bytes=12 * CHUNK)
    segments = even_history(segments=40, batches=40)
    proxy, prefix, _ = await begin(segments, small_cache)
    at = 0
    for _ in range(30):
        found = proxy.read(prefix, Offset(at), bytes_max=1000, client="gone")
        at = (found if isinstance(found, ColdRead) else await found).next_offset
    await settled()
    gone = proxy.clients.of("gone")
    assert 0 < gone.unread_bytes <= WHOLE_CHUNKS.readahead_bytes_max + CHUNK
    fetched = gone.get_bytes
    behind = prefix.entries[20].base
    while behind < prefix.head.next_offset:
        found = proxy.read(prefix, Offset(behind), bytes_max=1000, client="replay")
        behind = (found if isinstance(found, ColdRead) else await found).next_offset
        await settled()
    assert gone.get_bytes == fetched  # Nothing more was fetched for who did not come back.
    assert proxy.stats.wasted_bytes == gone.wasted_bytes > 0
    assert gone.wasted_bytes <= WHOLE_CHUNKS.readahead_bytes_max + CHUNK
    assert proxy.clients.of("replay").wasted_bytes == 0
    await proxy.close()


async def test_two_clients_share_what_may_be_ahead_of_them() -> None:
    proxy, prefix, _ = await begin(even_history(segments=8, batches=100), WHOLE_CHUNKS)
    places = {"one": 0, "two": int(prefix.entries[4].base)}
    for _ in range(60):
        for client, at in places.items():
            found = proxy.read(prefix, Offset(at), bytes_max=1000, client=client)
            got = found if isinstance(found, ColdRead) else await found
            places[client] = got.next_offset
        await settled()
        shares = [proxy.clients.of(client).unread_bytes for client in places]
        assert sum(shares) == proxy.loader.unread_bytes
        assert max(shares) <= WHOLE_CHUNKS.held_bytes_max // 2 + CHUNK
    await proxy.close()


def test_a_hundred_and_one_names_at_most_and_the_sum_stays() -> None:
    clients = Clients(clients_max=3)
    for number in range(10):
        clients.of(f"client {number}").gets += number
    names = dict(clients.items())
    assert [who.client for who in names] == ["client 7", "client 8", "client 9", OTHER]
    assert sum(account.gets for account in names.values()) == sum(range(10))
    clients.of("client 7")
    clients.of("new")
    assert Who("client 7") in dict(clients.items())


async def test_a_client_of_two_groups_is_counted_for_each() -> None:
    segments = even_history()
    proxy, prefix, _ = await begin(segments, WHOLE_CHUNKS)
    for group in ("audit", "billing"):
        name = partial(str, group)
        found = proxy.read(prefix, Offset(0), bytes_max=1000, client="app", group=name)
        if not isinstance(found, ColdRead):
            await found
    counted = {who.group: account.reads for who, account in proxy.clients.items() if account.reads}
    assert counted == {"audit": 1, "billing": 1}
    await proxy.close()


def test_a_price_is_of_requests_and_bytes() -> None:
    price = Price(get=0.0000004, gigabyte=0.01)
    assert price.of(gets=1000, get_bytes=2 * 10**9) == pytest.approx(0.0204)


async def test_searches_by_time_are_counted_under_a_name_of_their_own() -> None:
    proxy, prefix, store = await begin(even_history(), SMALL)
    await proxy.search_latest(prefix)
    counted = {who.client: account.gets for who, account in proxy.clients.items()}
    assert counted == {"(searches by time)": len(store.gets)}
    await proxy.close()
