"""The simulated object store: the contract, and that each of its faults is what it says."""

import asyncio
from random import Random

import pytest

from tests.objectstore.contract import ObjectStoreContract, put
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.port import Doomed, Outcome
from tierlog.sim import SimWorld, simulate
from tierlog.sim.objectstore import SimBucket, SimStore


class TestSimStore(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> SimStore:
        return SimStore(SimBucket(Random(1), delay_seconds_max=0), local_env())


def bucket_of(world: SimWorld) -> SimBucket:
    return SimBucket(world.rng("bucket"))


def test_the_bucket_remembers_every_version_and_who_wrote_it() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        store = SimStore(bucket, world.env("a"))
        first = await world.start("a", put(store, "HEAD", b"1"), what="put")
        await store.put_if_match("HEAD", BytesBody(b"2"), etag=first.etag)
        stale = await store.put_if_match("HEAD", BytesBody(b"3"), etag=first.etag)
        assert stale.outcome is Outcome.LOST
        assert bucket.versions("HEAD") == [b"1", b"2"]
        assert [each.host for each in bucket.landed] == ["a", "driver"]

    simulate(scenario, seed=1)


def test_the_bucket_notices_a_key_that_is_used_again() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        store = SimStore(bucket, world.env("a"))
        written = await put(store, "HEAD", b"1")
        await store.put_if_match("HEAD", BytesBody(b"2"), etag=written.etag)
        await put(store, "seg/1", b"x")
        assert bucket.written_twice() == []
        await store.delete([Doomed("seg/1"), Doomed("seg/2")])
        assert bucket.deleted == ["seg/1"]
        await put(store, "seg/1", b"x")
        assert bucket.written_twice() == ["seg/1"]

    simulate(scenario, seed=1)


def test_a_request_on_its_way_may_land_after_its_sender_died() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = SimBucket(world.rng("bucket"), delay_seconds_max=10)
        for number in range(40):
            store = SimStore(bucket, world.env("a"))
            world.start("a", put(store, f"key/{number}", b""), what="put")
            await asyncio.sleep(0.1)  # Sent by then; most are on their way for seconds.
            world.kill("a")
        at_once = len(bucket.landed)
        await asyncio.sleep(20)
        assert at_once < len(bucket.landed) < 40

    simulate(scenario, seed=1)
