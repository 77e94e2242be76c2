"""The metastore in a directory: the contract on a real disk, and what only this adapter has."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.metastore.contract import MetaStoreContract, next_of, put, values
from tierlog.env import Env, local_env
from tierlog.metastore import (
    Compare,
    Delete,
    LocalMetaStore,
    MetaStoreInUse,
    Put,
    WatchLost,
)


@pytest.fixture
def env() -> Env:
    return local_env()


@pytest.fixture
async def store(env: Env, tmp_path: Path) -> AsyncIterator[LocalMetaStore]:
    store = await LocalMetaStore.open(env, f"{tmp_path}/meta")
    yield store
    await store.close()


class TestLocalMetaStore(MetaStoreContract):
    """On a real disk."""


class TestLocalMetaStoreThatCompactsAllTheTime(MetaStoreContract):
    @pytest.fixture
    async def store(self, env: Env, tmp_path: Path) -> AsyncIterator[LocalMetaStore]:
        store = await LocalMetaStore.open(env, f"{tmp_path}/meta", journal_bytes_min=1)
        yield store
        await store.close()


async def test_a_store_that_is_opened_again_is_the_same(env: Env, tmp_path: Path) -> None:
    path = f"{tmp_path}/deep/in/meta"
    store = await LocalMetaStore.open(env, path)
    await store.txn([], [Put("/a", b"1"), Put("/b", b"2"), Put("/é", b"")])
    await store.txn([], [Delete("/b"), Put("/a", b"3")])
    before = await store.list("")
    for _ in range(3):
        await store.close()
        store = await LocalMetaStore.open(env, path)
        assert await store.list("") == before
    revision = await put(store, "/b", b"4")
    assert revision == before[1] + 1
    await store.close()


async def test_history_begins_when_the_store_is_opened(env: Env, tmp_path: Path) -> None:
    store = await LocalMetaStore.open(env, str(tmp_path))
    revision = await put(store, "/a", b"1")
    await store.close()
    store = await LocalMetaStore.open(env, str(tmp_path))
    with pytest.raises(WatchLost):
        await next_of(store.watch("/", after=revision - 1))
    watch = store.watch("/", after=revision)
    await put(store, "/a", b"2")
    assert [event.value for event in await next_of(watch)] == [b"2"]
    await store.close()


async def test_a_second_opener_is_refused_until_the_first_closes(env: Env, tmp_path: Path) -> None:
    store = await LocalMetaStore.open(env, str(tmp_path))
    with pytest.raises(MetaStoreInUse, match="in use by another process"):
        await LocalMetaStore.open(env, str(tmp_path))
    await store.close()
    await (await LocalMetaStore.open(env, str(tmp_path))).close()


async def test_keys_of_sessions_do_not_outlive_the_process(env: Env, tmp_path: Path) -> None:
    store = await LocalMetaStore.open(env, str(tmp_path))
    session = store.session(ttl_ms=1000)
    await session.start()
    await store.txn([], [Put("/brokers/0", b"", session), Put("/topics/x", b"")])
    lost = asyncio.ensure_future(session.lost())
    revision = (await store.list(""))[1]
    await store.close()
    await lost
    store = await LocalMetaStore.open(env, str(tmp_path))
    assert await values(store) == {"/topics/x": b""}
    assert (await store.list(""))[1] == revision + 1
    await store.close()


async def test_ten_thousand_partitions_start_in_one_txn(store: LocalMetaStore) -> None:
    keys = [f"/partitions/{number:032x}/0" for number in range(10_000)]
    created = await store.txn(
        [Compare(key, 0) for key in keys], [Put(key, b"{}" * 150) for key in keys]
    )
    raised = await store.txn(
        [Compare(key, created.revision) for key in keys], [Put(key, b"{}" * 150) for key in keys]
    )
    assert raised.succeeded
    assert raised.revision == created.revision + 1
    assert len((await store.list("/partitions/"))[0]) == len(keys)


async def test_a_txn_whose_caller_went_away_does_not_hold_up_the_others(
    store: LocalMetaStore,
) -> None:
    leaving = asyncio.ensure_future(store.txn([], [Put("/leaving", b"")]))
    staying = asyncio.ensure_future(store.txn([], [Put("/staying", b"")]))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).succeeded
    assert "/staying" in await values(store)
