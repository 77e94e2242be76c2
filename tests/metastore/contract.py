"""What every metastore promises while nothing goes wrong. Each adapter subclasses the suite."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tierlog.metastore import (
    Compare,
    Delete,
    Event,
    InvalidTxn,
    MetaStore,
    MetaStoreClosed,
    Put,
    SessionLost,
    WatchLost,
)
from tierlog.metastore.port import KEY_BYTES_MAX, VALUE_BYTES_MAX

WAIT_SECONDS = 20.0


async def next_of(watch: AsyncIterator[list[Event]]) -> list[Event]:
    return await asyncio.wait_for(anext(watch), WAIT_SECONDS)


async def put(store: MetaStore, key: str, value: bytes) -> int:
    result = await store.txn([], [Put(key, value)])
    assert result.succeeded
    return result.revision


async def values(store: MetaStore, prefix: str = "") -> dict[str, bytes]:
    return {entry.key: entry.value for entry in (await store.list(prefix))[0]}


class MetaStoreContract:
    """Fixture of the subclass: `store`, open and empty."""

    async def test_what_was_put_is_there_with_the_revision_of_its_txn(
        self, store: MetaStore
    ) -> None:
        assert await store.get("/a") is None
        first = await put(store, "/a", b"1")
        second = await put(store, "/a", b"\0\xff")
        entry = await store.get("/a")
        assert entry is not None
        assert (entry.key, entry.value, entry.revision) == ("/a", b"\0\xff", second)
        assert 0 < first < second
        assert entry.created == first

    async def test_a_key_that_comes_back_has_a_new_life(self, store: MetaStore) -> None:
        await put(store, "/a", b"1")
        await store.txn([], [Delete("/a")])
        assert await store.get("/a") is None
        revision = await put(store, "/a", b"2")
        entry = await store.get("/a")
        assert entry is not None
        assert entry.created == entry.revision == revision

    async def test_all_changes_of_a_txn_share_one_revision(self, store: MetaStore) -> None:
        await put(store, "/b", b"old")
        result = await store.txn([], [Put("/a", b"1"), Delete("/b"), Put("/c", b"3")])
        entries, revision = await store.list("/")
        assert [(each.key, each.revision) for each in entries] == [
            ("/a", result.revision),
            ("/c", result.revision),
        ]
        assert revision == result.revision

    async def test_a_list_is_sorted_and_keeps_to_its_prefix(self, store: MetaStore) -> None:
        keys = ["/t/b", "/t/a", "/t", "/t/a/x", "/u", "/t/é", "/s/z", "/t/\U0001f600"]
        await store.txn([], [Put(key, key.encode()) for key in keys])
        assert list(await values(store, "/t/")) == ["/t/a", "/t/a/x", "/t/b", "/t/é", "/t/😀"]
        assert list(await values(store)) == sorted(keys, key=str.encode)
        await store.txn([], [Delete("/t/a"), Put("/t/aa", b"")])
        assert list(await values(store, "/t/a")) == ["/t/a/x", "/t/aa"]
        assert await values(store, "/nothing") == {}

    async def test_changes_happen_only_if_every_compare_holds(self, store: MetaStore) -> None:
        revision = await put(store, "/a", b"1")
        for compares in (
            [Compare("/a", revision - 1)],
            [Compare("/a", 0)],
            [Compare("/absent", revision)],
            [Compare("/a", revision), Compare("/absent", 7)],
        ):
            result = await store.txn(compares, [Put("/a", b"2"), Put("/b", b"2")])
            assert not result.succeeded
            assert result.revision == revision
        assert await values(store) == {"/a": b"1"}
        held = [Compare("/a", revision), Compare("/b", 0)]
        assert (await store.txn(held, [Put("/a", b"2"), Put("/b", b"2")])).succeeded
        assert await values(store) == {"/a": b"2", "/b": b"2"}

    async def test_a_txn_without_effect_takes_no_revision(self, store: MetaStore) -> None:
        revision = await put(store, "/a", b"1")
        assert (await store.txn([], [Delete("/absent")])).revision == revision
        checked = await store.txn([Compare("/a", revision)], [])
        assert (checked.succeeded, checked.revision) == (True, revision)
        assert not (await store.txn([Compare("/a", 0)], [])).succeeded
        assert (await store.list(""))[1] == revision

    async def test_of_racing_creators_one_wins(self, store: MetaStore) -> None:
        results = await asyncio.gather(
            *(
                store.txn([Compare("/leader", 0)], [Put("/leader", b"%d" % number)])
                for number in range(16)
            )
        )
        winners = [number for number, result in enumerate(results) if result.succeeded]
        assert len(winners) == 1
        entry = await store.get("/leader")
        assert entry is not None
        assert entry.value == b"%d" % winners[0]

    async def test_racing_counters_lose_no_step(self, store: MetaStore) -> None:
        await put(store, "/count", b"0")

        async def add_one() -> None:
            while True:
                entry = await store.get("/count")
                assert entry is not None
                changed = Put("/count", b"%d" % (int(entry.value) + 1))
                if (await store.txn([Compare("/count", entry.revision)], [changed])).succeeded:
                    return

        await asyncio.gather(*(add_one() for _ in range(12)))
        assert await values(store) == {"/count": b"12"}

    @pytest.mark.parametrize(
        "changes",
        [
            [Put("", b"")],
            [Put("k" * (KEY_BYTES_MAX + 1), b"")],
            [Put("é" * (KEY_BYTES_MAX // 2 + 1), b"")],
            [Put("\ud800", b"")],
            [Put("/a", bytes(VALUE_BYTES_MAX + 1))],
            [Put("/a", b"1"), Put("/a", b"2")],
            [Put("/a", b"1"), Delete("/a")],
        ],
        ids=["empty", "long", "long in bytes", "surrogate", "large", "twice", "put and delete"],
    )
    async def test_what_no_store_takes_is_refused_whole(
        self, store: MetaStore, changes: list[Put | Delete]
    ) -> None:
        with pytest.raises(InvalidTxn):
            await store.txn([], [Put("/fine", b""), *changes])
        assert await values(store) == {}

    async def test_the_largest_key_and_value_are_taken(self, store: MetaStore) -> None:
        key, value = "k" * KEY_BYTES_MAX, bytes(VALUE_BYTES_MAX)
        await put(store, key, value)
        assert await values(store) == {key: value}

    async def test_a_watch_sees_each_txn_once_and_in_order(self, store: MetaStore) -> None:
        revision = await put(store, "/t/before", b"0")
        watch = store.watch("/t/", after=revision)
        one = await store.txn([], [Put("/t/a", b"1"), Put("/u", b"x"), Put("/t/b", b"2")])
        await put(store, "/u", b"y")
        two = await store.txn([], [Delete("/t/a"), Delete("/t/absent")])
        assert await next_of(watch) == [
            Event("/t/a", b"1", one.revision),
            Event("/t/b", b"2", one.revision),
        ]
        assert await next_of(watch) == [Event("/t/a", None, two.revision)]
        waiting = asyncio.ensure_future(next_of(watch))
        three = await put(store, "/t/c", b"3")
        assert await waiting == [Event("/t/c", b"3", three)]

    async def test_a_watch_may_begin_in_the_past_or_ahead(self, store: MetaStore) -> None:
        first = await put(store, "/a", b"1")
        second = await put(store, "/a", b"2")
        third = await put(store, "/a", b"3")
        past = store.watch("/", after=first)
        assert await next_of(past) == [Event("/a", b"2", second)]
        assert await next_of(past) == [Event("/a", b"3", third)]
        ahead = store.watch("/", after=third + 1)
        waiting = asyncio.ensure_future(next_of(ahead))
        await put(store, "/a", b"not yet")
        last = await put(store, "/a", b"now")
        assert await waiting == [Event("/a", b"now", last)]

    async def test_a_list_and_a_watch_behind_it_miss_nothing(self, store: MetaStore) -> None:
        writers = [asyncio.ensure_future(put(store, f"/k{n % 7}", b"%d" % n)) for n in range(60)]
        await asyncio.wait(writers[:20])
        entries, revision = await store.list("/")
        copy = {entry.key: entry.value for entry in entries}
        end = max(await asyncio.gather(*writers))
        watch = store.watch("/", after=revision)
        while revision < end:
            for event in await next_of(watch):
                assert event.value is not None
                copy[event.key], revision = event.value, event.revision
        assert copy == await values(store)

    async def test_a_watch_from_forgotten_history_is_told_so(self, store: MetaStore) -> None:
        await put(store, "/a", b"1")
        for _ in range(40):  # More bytes than any of the stores under test keeps.
            await put(store, "/a", bytes(VALUE_BYTES_MAX))
        with pytest.raises(WatchLost) as lost:
            await next_of(store.watch("/", after=0))
        entries, revision = await store.list("/")
        assert 0 == lost.value.after < lost.value.oldest <= revision
        watch = store.watch("/", after=revision)
        last = await put(store, "/b", b"2")
        assert await next_of(watch) == [Event("/b", b"2", last)]
        assert len(entries) == 1

    async def test_a_watcher_that_fell_behind_is_told_so(self, store: MetaStore) -> None:
        watch = store.watch("/", after=(await store.list(""))[1])
        first = await put(store, "/a", b"1")
        assert await next_of(watch) == [Event("/a", b"1", first)]
        for _ in range(40):
            await put(store, "/a", bytes(VALUE_BYTES_MAX))
        with pytest.raises(WatchLost):
            await next_of(watch)

    async def test_closing_ends_watches_and_refuses_the_rest(self, store: MetaStore) -> None:
        watch = store.watch("/", after=(await store.list(""))[1])
        waiting = asyncio.ensure_future(next_of(watch))
        await put(store, "/a", b"1")
        assert len(await waiting) == 1
        waiting = asyncio.ensure_future(next_of(watch))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
        with pytest.raises(MetaStoreClosed):
            await store.txn([], [Put("/a", b"2")])
        with pytest.raises(MetaStoreClosed):
            await store.get("/a")
        with pytest.raises(MetaStoreClosed):
            await store.list("/")
        await store.close()

    async def test_keys_of_a_session_go_when_it_is_closed(self, store: MetaStore) -> None:
        session = store.session(ttl_ms=60_000)
        await session.start()
        assert (session.is_alive, session.id > 0) == (True, True)
        await store.txn([], [Put("/brokers/1", b"here", session), Put("/stays", b"")])
        await store.txn([], [Put("/adopted", b"", session)])
        await put(store, "/adopted", b"")
        entry = await store.get("/brokers/1")
        assert entry is not None
        assert entry.session == session.id
        watch = store.watch("/", after=(await store.list(""))[1])
        lost = asyncio.ensure_future(session.lost())
        await session.close()
        await asyncio.wait_for(lost, WAIT_SECONDS)
        assert not session.is_alive
        assert [event.key for event in await next_of(watch)] == ["/brokers/1"]
        assert list(await values(store)) == ["/adopted", "/stays"]
        await session.close()

    async def test_nothing_is_put_under_a_session_that_is_over(self, store: MetaStore) -> None:
        session = store.session(ttl_ms=60_000)
        await session.start()
        await session.close()
        with pytest.raises(SessionLost):
            await store.txn([], [Put("/stays", b""), Put("/a", b"", session)])
        assert await values(store) == {}
