"""The simulated metastore: the contract, and that each of its faults is what it says."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from tests.metastore.contract import MetaStoreContract, next_of, put, values
from tierlog.env import Env, local_env
from tierlog.metastore import (
    Compare,
    MetaStoreUnavailable,
    Put,
    SessionLost,
    TxnUncertain,
    WatchLost,
)
from tierlog.sim import SimWorld, simulate
from tierlog.sim.metastore import SimMetaCluster, SimMetaStore


class TestSimMetaStore(MetaStoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[SimMetaStore]:
        store = SimMetaStore(local_env(), SimMetaCluster(Random(1), delay_seconds_max=0))
        yield store
        await store.close()


def cluster_of(world: SimWorld) -> SimMetaCluster:
    return SimMetaCluster(world.rng("metastore"))


def test_a_store_that_is_away_takes_nothing_and_comes_back() -> None:
    async def scenario(world: SimWorld) -> None:
        cluster = cluster_of(world)
        store = SimMetaStore(world.env("a"), cluster)
        revision = await put(store, "/a", b"1")
        watch = store.watch("/", after=revision)
        waiting = asyncio.ensure_future(anext(watch))
        cluster.stop()
        for call in (store.txn([], [Put("/a", b"2")]), store.get("/a"), store.list("")):
            with pytest.raises(MetaStoreUnavailable):
                await call
        await asyncio.sleep(100)
        assert not waiting.done()
        cluster.start()
        assert await values(store) == {"/a": b"1"}
        await put(store, "/a", b"3")
        assert [event.value for event in await waiting] == [b"3"]

    simulate(scenario, seed=1)


def test_a_lost_answer_and_a_lost_request_look_alike_and_are_not() -> None:
    async def scenario(world: SimWorld) -> None:
        cluster = cluster_of(world)
        store = SimMetaStore(world.env("a"), cluster)
        cluster.lose_answers()
        with pytest.raises(TxnUncertain):
            await store.txn([], [Put("/applied", b"")])
        cluster.lose_requests()
        with pytest.raises(TxnUncertain):
            await store.txn([], [Put("/lost", b"")])
        assert list(await values(store)) == ["/applied"]
        await put(store, "/lost", b"")

    simulate(scenario, seed=1)


def test_uncertain_txns_come_in_both_kinds() -> None:
    async def scenario(world: SimWorld) -> None:
        cluster = cluster_of(world)
        store = SimMetaStore(world.env("a"), cluster)
        cluster.uncertain_share = 0.5
        uncertain = []
        for number in range(80):
            try:
                await put(store, f"/{number}", b"")
            except TxnUncertain:
                uncertain.append(f"/{number}")
        applied = [key for key in uncertain if key in await values(store)]
        assert 10 < len(applied) < len(uncertain) - 10

    simulate(scenario, seed=1)


def test_a_session_lives_as_long_as_its_process_and_a_ttl_longer() -> None:
    async def hold(env: Env, cluster: SimMetaCluster) -> None:
        store = SimMetaStore(env, cluster)
        session = store.session(ttl_ms=6000)
        await session.start()
        await store.txn([Compare("/brokers/1", 0)], [Put("/brokers/1", b"", session)])
        await session.lost()

    async def scenario(world: SimWorld) -> None:
        cluster = cluster_of(world)
        store = SimMetaStore(world.env("watcher"), cluster)
        watch = store.watch("/brokers/", after=0)
        holding = world.start("a", hold(world.env("a"), cluster), what="hold")
        assert (await next_of(watch))[0].value == b""
        await asyncio.sleep(100)
        assert not holding.done()
        world.kill("a")
        died = world.loop.time()
        event = (await next_of(watch))[0]
        assert (event.key, event.value) == ("/brokers/1", None)
        assert 3.9 < world.loop.time() - died < 6.1

    simulate(scenario, seed=1)


def test_a_session_that_the_store_expired_is_lost_to_its_holder() -> None:
    async def scenario(world: SimWorld) -> None:
        cluster = cluster_of(world)
        store = SimMetaStore(world.env("a"), cluster)
        session = store.session(ttl_ms=6000)
        await session.start()
        await store.txn([], [Put("/a", b"", session)])
        cluster.expire_sessions()
        assert await values(store) == {}
        # The holder does not know yet; safety is not the session's business.
        assert session.is_alive
        with pytest.raises(SessionLost):
            await store.txn([], [Put("/a", b"", session)])
        await session.lost()

    simulate(scenario, seed=1)


def test_no_session_expires_while_the_store_is_away() -> None:
    async def scenario(world: SimWorld) -> None:
        cluster = cluster_of(world)
        store = SimMetaStore(world.env("a"), cluster)
        session = store.session(ttl_ms=6000)
        await session.start()
        await store.txn([], [Put("/a", b"", session)])
        cluster.stop()
        await asyncio.sleep(60)
        cluster.start()
        await asyncio.sleep(60)
        assert list(await values(store)) == ["/a"]
        assert session.is_alive

    simulate(scenario, seed=1)


def test_compacted_history_is_lost_to_those_behind() -> None:
    async def scenario(world: SimWorld) -> None:
        cluster = cluster_of(world)
        store = SimMetaStore(world.env("a"), cluster)
        revision = await put(store, "/a", b"1")
        last = await put(store, "/a", b"2")
        cluster.compact()
        with pytest.raises(WatchLost):
            await next_of(store.watch("/", after=revision))
        watch = store.watch("/", after=last)
        await put(store, "/a", b"3")
        assert len(await next_of(watch)) == 1

    simulate(scenario, seed=1)


def test_a_process_that_dies_leaves_its_txn_whole_or_not_at_all() -> None:
    async def write(env: Env, cluster: SimMetaCluster) -> None:
        store = SimMetaStore(env, cluster)
        for number in range(1000):
            await store.txn([], [Put("/a", b"%d" % number), Put("/b", b"%d" % number)])

    async def scenario(world: SimWorld) -> None:
        cluster = cluster_of(world)
        world.start("a", write(world.env("a"), cluster), what="write")
        await asyncio.sleep(0.3)
        world.kill("a")
        store = SimMetaStore(world.env("b"), cluster)
        before = await values(store)
        assert before["/a"] == before["/b"]
        await asyncio.sleep(10)
        assert await values(store) == before, "the dead write nothing"

    for seed in range(5):
        simulate(scenario, seed=seed)
