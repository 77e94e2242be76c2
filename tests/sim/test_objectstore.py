"""The simulated object store: the contract, and that each of its faults is what it says."""

import asyncio
from random import Random

import pytest

from tests.objectstore.contract import ObjectStoreContract, keys, put, read, uploads
from tierlog.env import local_env
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.errors import NoSuchObject, StoreThrottled, StoreUnavailable
from tierlog.objectstore.port import Doomed, ObjectStore, Outcome
from tierlog.sim import HostDied, SimWorld, simulate
from tierlog.sim.objectstore import SimBucket, SimStore
from tierlog.sim.storefaults import CallHook, Fate, StoreCall, StoreFaults, Then, When


class TestSimStore(ObjectStoreContract):
    @pytest.fixture
    def store(self) -> SimStore:
        return SimStore(SimBucket(Random(1), delay_seconds_max=0), local_env())


def bucket_of(world: SimWorld) -> SimBucket:
    return SimBucket(world.rng("bucket"), world=world)


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


# Fates, one by one


def once(kind: str, fate: Fate) -> CallHook:
    """The first call of the kind meets its fate, the others nothing."""
    waiting = [fate]
    return lambda call: waiting.pop() if call.kind == kind and waiting else None


async def swap(store: SimStore, etag: str) -> Outcome:
    return (await store.put_if_match("HEAD", BytesBody(b"2"), etag=etag)).outcome


def meet(fate: Fate) -> tuple[object, list[bytes], list[bytes]]:
    """What a process hears of a swap that meets this fate, and what the bucket holds at the moment
    when it has heard, died or stood still, and in the end, an hour later. Frozen ones thaw."""

    async def scenario(world: SimWorld) -> tuple[object, list[bytes], list[bytes]]:
        bucket = bucket_of(world)
        etag = (await put(SimStore(bucket, world.env("driver")), "HEAD", b"1")).etag
        bucket.on_call = once("put_if_match", fate)
        answer = world.start("a", swap(SimStore(bucket, world.env("a")), etag), what="swap")
        await asyncio.sleep(1)
        assert answer.done() or world.is_frozen("a")
        at_first = bucket.versions("HEAD")
        await asyncio.sleep(3600)
        world.thaw("a")
        try:
            heard: object = await answer
        except HostDied:
            heard = "dead"
        return heard, at_first, bucket.versions("HEAD")

    return simulate(scenario, seed=5)


BEFORE, AFTER, AMBIGUOUS = When.BEFORE, When.AFTER, When.AMBIGUOUS
OLD, BOTH = [b"1"], [b"1", b"2"]


@pytest.mark.parametrize(
    ("fate", "heard", "at_first", "at_last"),
    [
        (Fate(BEFORE), Outcome.AMBIGUOUS, OLD, OLD),
        (Fate(BEFORE, Then.DIE), "dead", OLD, OLD),
        (Fate(BEFORE, Then.FREEZE), Outcome.WON, OLD, BOTH),
        (Fate(AFTER), Outcome.AMBIGUOUS, BOTH, BOTH),
        (Fate(AFTER, Then.DIE), "dead", BOTH, BOTH),
        (Fate(AFTER, Then.FREEZE), Outcome.WON, BOTH, BOTH),
        (Fate(AMBIGUOUS, late_seconds=30), Outcome.AMBIGUOUS, OLD, BOTH),
        (Fate(AMBIGUOUS, Then.DIE, late_seconds=30), "dead", OLD, BOTH),
        (Fate(AMBIGUOUS, Then.FREEZE, late_seconds=30), Outcome.AMBIGUOUS, OLD, BOTH),
    ],
    ids=str,
)
def test_every_fate_of_a_swap_is_what_it_says(
    fate: Fate, heard: object, at_first: list[bytes], at_last: list[bytes]
) -> None:
    assert meet(fate) == (heard, at_first, at_last)


def test_a_late_swap_loses_against_what_came_before_it() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        store = SimStore(bucket, world.env("a"))
        etag = (await put(store, "HEAD", b"1")).etag
        bucket.on_call = once("put_if_match", Fate(AMBIGUOUS, late_seconds=30))
        assert await swap(store, etag) is Outcome.AMBIGUOUS
        written = await store.put_if_match("HEAD", BytesBody(b"other"), etag=etag)
        assert written.outcome is Outcome.WON
        await asyncio.sleep(60)
        assert bucket.versions("HEAD") == [b"1", b"other"]

    simulate(scenario, seed=1)


def test_a_zombie_that_wakes_sends_what_it_was_about_to_send() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        other = SimStore(bucket, world.env("b"))
        etag = (await put(other, "HEAD", b"1")).etag
        bucket.on_call = once("put_if_match", Fate(BEFORE, Then.FREEZE))
        answer = world.start("a", swap(SimStore(bucket, world.env("a")), etag), what="swap")
        await asyncio.sleep(1)
        await other.put_if_match("HEAD", BytesBody(b"newer"), etag=etag)
        await asyncio.sleep(1000)
        assert not answer.done()
        world.thaw("a")
        assert await answer is Outcome.LOST
        assert bucket.versions("HEAD") == [b"1", b"newer"]

    simulate(scenario, seed=1)


def test_reads_without_an_answer_fail_and_change_nothing() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        store = SimStore(bucket, world.env("a"))
        await put(store, "a", b"data")
        for fate in (Fate(BEFORE), Fate(AFTER), Fate(AMBIGUOUS, late_seconds=5)):
            for kind, call in (
                ("get", store.get("a")),
                ("get_tail", store.get_tail("a", 1)),
                ("head", store.head("a")),
                ("delete", store.delete([Doomed("b")])),
            ):
                bucket.on_call = once(kind, fate)
                with pytest.raises(StoreUnavailable):
                    await call
            bucket.on_call = once("list", fate)
            with pytest.raises(StoreUnavailable):
                await keys(store)
        assert await keys(store) == ["a"]

    simulate(scenario, seed=1)


def test_every_call_of_the_port_passes_the_hook() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        calls: list[StoreCall] = []
        bucket.on_call = calls.append  # It gives None, which lets the call be.
        store = SimStore(bucket, world.env("a"))
        etag = (await put(store, "a", b"")).etag
        await store.put_if_match("a", BytesBody(b""), etag=etag)
        await store.put("b", BytesBody(b""))
        await store.copy("a", "c")
        upload = await store.begin_upload("d")
        part = await store.put_part(upload, 1, BytesBody(b"x"))
        await store.complete_upload(upload, [part], crc32c=part.crc32c)
        await store.abort_upload(upload)
        await uploads(store)
        await store.get("a")
        await store.get_tail("a", 1)
        await store.head("a")
        await keys(store)
        await store.delete([Doomed("a")])
        port = {name for name in vars(ObjectStore) if name[0] != "_"} - {"close"}
        assert {call.kind for call in calls} == port
        assert [call.number for call in calls] == list(range(len(calls)))

    simulate(scenario, seed=1)


# Drawn faults


def test_a_store_that_is_away_takes_nothing_and_comes_back() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        store = SimStore(bucket, world.env("a"))
        await put(store, "a", b"1")
        bucket.stop()
        for _ in range(10):
            with pytest.raises(StoreUnavailable):
                await store.get("a")
            written = await store.put_if_absent("b", BytesBody(b""))
            assert written.outcome is Outcome.AMBIGUOUS
        bucket.start()
        assert await keys(store) == ["a"]

    simulate(scenario, seed=1)


def test_drawn_faults_come_in_all_kinds_and_never_lie() -> None:
    """WON is there, LOST is not; of those in doubt some are and some are not."""

    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        bucket.faults = StoreFaults(
            throttled_share=0.1,
            lost_share=0.1,
            unanswered_share=0.1,
            hanging_share=0.1,
            late_share=0.1,
        )
        store = SimStore(bucket, world.env("a"))
        outcomes = {}
        for number in range(300):
            written = await store.put_if_absent(f"{number:03d}", BytesBody(b""))
            outcomes[f"{number:03d}"] = written.outcome
        await asyncio.sleep(120)
        there = set(bucket.shelf.items)
        in_doubt = {key for key, each in outcomes.items() if each is Outcome.AMBIGUOUS}
        assert there - in_doubt == {key for key, each in outcomes.items() if each is Outcome.WON}
        assert 50 < len(in_doubt & there) < len(in_doubt) - 50
        errors = set()
        for _ in range(100):
            try:
                await store.head("000")
            except StoreUnavailable as error:
                errors.add(type(error))
            except NoSuchObject:
                assert "000" not in there
        assert errors == {StoreUnavailable, StoreThrottled}

    simulate(scenario, seed=1)


def test_a_bad_answer_is_short_wrong_or_old() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        store = SimStore(bucket, world.env("a"))
        etag = (await put(store, "HEAD", b"one")).etag
        await store.put_if_match("HEAD", BytesBody(b"two"), etag=etag)
        bucket.faults = StoreFaults(short_share=1)
        with pytest.raises(StoreUnavailable):
            await store.get("HEAD")
        bucket.faults = StoreFaults(flipped_share=1)
        data = bytes((await store.get("HEAD")).data)
        flipped = int.from_bytes(data, "big") ^ int.from_bytes(b"two", "big")
        assert flipped.bit_count() == 1
        bucket.faults = StoreFaults(stale_share=1)
        got = await store.get("HEAD")
        assert (bytes(got.data), got.stat.etag) == (b"one", etag)
        bucket.faults = StoreFaults()
        assert await read(store, "HEAD") == b"two"

    simulate(scenario, seed=1)


def test_a_lying_store_lets_everybody_win() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        store = SimStore(bucket, world.env("a"))
        await put(store, "HEAD", b"1")
        bucket.faults.ignores_conditions = True
        assert await swap(store, '"stale"') is Outcome.WON
        await put(store, "HEAD", b"3")
        assert bucket.versions("HEAD") == [b"1", b"2", b"3"]

    simulate(scenario, seed=1)


def test_one_seed_gives_one_history_of_faults() -> None:
    async def scenario(world: SimWorld) -> None:
        bucket = bucket_of(world)
        bucket.faults = StoreFaults(lost_share=0.2, late_share=0.2, unanswered_share=0.2)
        store = SimStore(bucket, world.env("a"))
        await asyncio.gather(*(store.put(f"{n % 5}", BytesBody(b"%d" % n)) for n in range(50)))

    worlds = [SimWorld(seed) for seed in (1, 1, 2)]
    for world in worlds:
        simulate(scenario, seed=world.seed, world=world)
    first, again, other = (world.trace_hash() for world in worlds)
    assert first == again != other
