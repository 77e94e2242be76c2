"""Retrying, counting, limiting and failing: each keeps the contract, and does its one thing."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.objectstore.contract import (
    ObjectStoreContract,
    keys,
    put,
    put_parts,
    read,
    span,
    uploads,
)
from tierlog.cold.layout import is_data
from tierlog.env import SystemClock, SystemRng, local_env
from tierlog.objectstore.around import Around, Request
from tierlog.objectstore.body import BytesBody
from tierlog.objectstore.counted import KIND_OF, Counted
from tierlog.objectstore.errors import NoSuchObject, StoreThrottled, StoreUnavailable
from tierlog.objectstore.faulty import Faulty, Trouble, drawn
from tierlog.objectstore.limited import Limited
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Doomed, ObjectStore, Outcome, Stat, Written
from tierlog.objectstore.retrying import Patience, Retrying
from tierlog.sim import SimWorld, simulate


def memory() -> MemoryStore:
    return MemoryStore(SystemClock())


class TestWrappersInARow(ObjectStoreContract):
    """All of them, one around the other, and nothing to do for any."""

    @pytest.fixture
    def store(self) -> ObjectStore:
        clock, rng = SystemClock(), SystemRng()
        faulty = Faulty(memory(), rng, lambda request: None)
        return Retrying(Limited(Counted(faulty, clock), clock), local_env())


class Scripted:
    """A plan: these troubles one after the other, then none. Remembers every request."""

    def __init__(self, troubles: Sequence[Trouble | None]) -> None:
        self.requests: list[Request] = []
        self._troubles = list(troubles)

    def __call__(self, request: Request) -> Trouble | None:
        self.requests.append(request)
        return self._troubles.pop(0) if self._troubles else None


# Retrying


def test_reads_are_asked_again_until_they_are_answered() -> None:
    async def scenario(world: SimWorld) -> None:
        store = memory()
        await put(store, "a", b"data")
        upload = await store.begin_upload("b")
        calls: list[Callable[[ObjectStore], Awaitable[object]]] = [
            lambda store: store.get("a", span=span(0, 2)),
            lambda store: store.get_tail("a", 2),
            lambda store: store.head("a"),
            lambda store: store.put_part(upload, 1, BytesBody(b"x")),
            lambda store: store.begin_upload("b"),
            lambda store: store.abort_upload(upload),
            lambda store: store.delete([Doomed("a")]),
        ]
        for call in calls:
            plan = Scripted([Trouble.THROTTLED, Trouble.UNANSWERED, Trouble.HANGING])
            env = world.env("a")
            await call(Retrying(Faulty(store, env.rng, plan), env))
            assert len(plan.requests) == 4

    simulate(scenario, seed=1)


def test_writes_are_sent_once_whatever_becomes_of_them() -> None:
    async def scenario(world: SimWorld) -> None:
        store = memory()
        etag = (await put(store, "a", b"data")).etag
        upload = await store.begin_upload("b")
        parts = await put_parts(store, upload, [b"x"])
        calls: list[Callable[[ObjectStore], Awaitable[Written]]] = [
            lambda store: store.put("c", BytesBody(b"")),
            lambda store: store.put_if_absent("d", BytesBody(b"")),
            lambda store: store.put_if_match("a", BytesBody(b""), etag=etag),
            lambda store: store.copy("a", "e"),
            lambda store: store.complete_upload(upload, parts, crc32c=parts[0].crc32c),
        ]
        for call in calls:
            for trouble in (Trouble.THROTTLED, Trouble.HANGING, Trouble.UNANSWERED):
                plan = Scripted([trouble])
                env = world.env("a")
                written = await call(Retrying(Faulty(store, env.rng, plan), env))
                assert written.outcome is Outcome.AMBIGUOUS
                assert len(plan.requests) == 1

    simulate(scenario, seed=1)


def test_a_listing_goes_on_behind_the_last_page_it_got() -> None:
    async def scenario(world: SimWorld) -> None:
        store = memory()
        names = [f"{number:05d}" for number in range(2500)]
        for name in names:
            await put(store, name, b"")
        plan = Scripted([Trouble.UNANSWERED, None, Trouble.THROTTLED, Trouble.HANGING])
        env = world.env("a")
        assert await keys(Retrying(Faulty(store, env.rng, plan), env)) == names
        assert len(plan.requests) == 3 + 3 + 1

    simulate(scenario, seed=1)


def test_patience_ends_by_attempts_and_by_time() -> None:
    async def scenario(world: SimWorld) -> None:
        env = world.env("a")
        plan = Scripted([Trouble.THROTTLED] * 100)
        store = Retrying(Faulty(memory(), env.rng, plan), env, Patience(attempts_max=4))
        with pytest.raises(StoreThrottled):
            await store.get("a")
        assert len(plan.requests) == 4
        plan = Scripted([Trouble.HANGING] * 100)
        patience = Patience(attempts_max=100, seconds_max=35)
        store = Retrying(Faulty(memory(), env.rng, plan), env, patience)
        begun = env.clock.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.get("a")
        assert 35 <= env.clock.monotonic() - begun < 46
        assert len(plan.requests) <= 5

    simulate(scenario, seed=1)


async def test_what_is_certain_is_not_asked_again() -> None:
    plan = Scripted([])
    with pytest.raises(NoSuchObject):
        await Retrying(Faulty(memory(), SystemRng(), plan), local_env()).get("a")
    assert len(plan.requests) == 1


def test_a_store_that_throttles_everything_is_not_asked_six_times_as_much() -> None:
    async def scenario(world: SimWorld) -> None:
        env = world.env("a")
        plan = Scripted([Trouble.THROTTLED] * 10_000)
        inner = memory()
        await put(inner, "a", b"data")
        patience = Patience(quota=100, repetition_cost=5)
        store = Retrying(Faulty(inner, env.rng, plan), env, patience)
        calls = (store.get("a") for _ in range(200))
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, StoreThrottled) for one in found)
        assert len(plan.requests) == 200 + 20
        with pytest.raises(StoreThrottled):
            await store.get("a")
        assert len(plan.requests) == 221, "no repetition is left"

    simulate(scenario, seed=1)


def test_successes_earn_repetitions_back() -> None:
    async def scenario(world: SimWorld) -> None:
        env = world.env("a")
        inner = memory()
        await put(inner, "a", b"data")
        plan = Scripted([Trouble.THROTTLED] * 2 + [None] * 5 + [Trouble.THROTTLED])
        store = Retrying(Faulty(inner, env.rng, plan), env, Patience(quota=5, repetition_cost=5))
        with pytest.raises(StoreThrottled):
            await store.get("a")
        assert store.quota.left == 0
        for _ in range(5):
            await store.get("a")
        assert store.quota.left == 5
        await store.get("a")
        assert len(plan.requests) == 2 + 5 + 2
        assert store.quota.left == 5, "what helped costs nothing"

    simulate(scenario, seed=1)


def test_pauses_grow_and_a_throttled_client_waits_longer() -> None:
    patience = Patience(pause_seconds=1, pause_seconds_max=30, throttled_factor=4)
    trouble, throttled = StoreUnavailable("x"), StoreThrottled("x")
    assert [patience.pause(n, trouble) for n in range(6)] == [1, 2, 4, 8, 16, 30]
    assert [patience.pause(n, throttled) for n in range(4)] == [4, 8, 16, 30]


# Counting


async def test_every_request_is_counted_by_its_kind() -> None:
    store = Counted(memory(), SystemClock())
    etag = (await put(store, "a", b"12345")).etag
    await store.put_if_match("a", BytesBody(b"123"), etag=etag)
    assert (await store.put_if_absent("a", BytesBody(b"1"))).outcome is Outcome.LOST
    await store.get("a")
    await store.get_tail("a", 2)
    await store.head("a")
    with pytest.raises(NoSuchObject):
        await store.head("absent")
    await keys(store)
    await keys(store, "nothing/")
    await store.copy("a", "b")
    upload = await store.begin_upload("c")
    parts = await put_parts(store, upload, [b"1234567"])
    await store.complete_upload(upload, parts, crc32c=parts[0].crc32c)
    await uploads(store)
    await store.delete([Doomed("a"), Doomed("b")])
    counted = {
        kind: (each.requests, each.bytes, each.errors, each.lost)
        for kind, each in store.stats.kinds.items()
    }
    assert counted == {
        "get": (2, 5, 0, 0),
        "head": (2, 0, 0, 0),
        "put": (5, 9, 0, 1),
        "list": (3, 0, 0, 0),
        "delete": (1, 0, 0, 0),
        "part": (1, 7, 0, 0),
        "copy": (1, 0, 0, 0),
    }


async def test_what_a_request_took_beside_itself_is_counted() -> None:
    class Asking(MemoryStore):
        async def head(self, key: str, *, version_id: str | None = None) -> Stat:
            missing = NoSuchObject(key)
            missing.also_asked = ("get",)
            raise missing

    store = Counted(Asking(SystemClock()), SystemClock())
    with pytest.raises(NoSuchObject):
        await store.head("absent")
    assert [store.stats.of(kind).requests for kind in ("head", "get")] == [1, 1]
    assert [store.stats.of(kind).errors for kind in ("head", "get")] == [0, 0]


def test_trouble_and_its_seconds_are_counted() -> None:
    async def scenario(world: SimWorld) -> None:
        env = world.env("a")
        plan = Scripted([Trouble.THROTTLED, Trouble.HANGING, Trouble.UNANSWERED])
        store = Counted(Faulty(memory(), env.rng, plan), env.clock)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await store.get("a")
        await store.put_if_absent("a", BytesBody(b"1"))
        gets, puts = store.stats.of("get"), store.stats.of("put")
        assert (gets.requests, gets.errors, gets.throttled) == (2, 2, 1)
        assert (puts.requests, puts.errors) == (1, 1)
        assert 10 <= gets.seconds < 11

    simulate(scenario, seed=1)


def test_every_call_of_the_port_is_wrapped_and_has_a_kind() -> None:
    port = {name for name in vars(ObjectStore) if name[0] != "_"} - {"close"}
    assert set(KIND_OF) == port
    assert port <= set(vars(Around))


# Limiting


def test_large_puts_keep_to_their_bytes_a_second() -> None:
    async def scenario(world: SimWorld) -> None:
        clock = world.env("a").clock
        store = Limited(memory(), clock, put_bytes_per_second=1 << 20)
        begun = clock.monotonic()
        body = BytesBody(bytes(2 << 20))
        await asyncio.gather(*(store.put_if_absent(f"{n}", body) for n in range(5)))
        assert clock.monotonic() - begun == pytest.approx(8, abs=0.01)
        store.put_bytes.rate = None
        await store.put("6", body)
        assert clock.monotonic() - begun == pytest.approx(8, abs=0.01)

    simulate(scenario, seed=1)


@pytest.mark.parametrize("size", [1, 10_000, 1 << 20])
def test_small_puts_keep_to_it_too_and_manifests_wait_for_nobody(size: int) -> None:
    async def scenario(world: SimWorld) -> None:
        clock = world.env("a").clock
        store = Limited(memory(), clock, put_bytes_per_second=size, is_bulk=is_data)
        begun = clock.monotonic()
        bulk = [
            asyncio.ensure_future(store.put_if_absent(f"seg/{n}{end}", BytesBody(bytes(size))))
            for n in range(15)
            for end in (".seg", ".parquet")
        ]
        await asyncio.sleep(0.001)
        for name in ("HEAD", "page/0.json.gz", "STATE", "OFFSETS", "TABLE", "pq/page-0.json.gz"):
            await store.put_if_absent(name, BytesBody(bytes(2 << 20)))
        assert clock.monotonic() - begun == pytest.approx(0, abs=0.01)
        await asyncio.gather(*bulk)
        assert clock.monotonic() - begun == pytest.approx(29, abs=0.01)
        await store.put_if_absent("b.seg", BytesBody(bytes(size)))  # Manifests owe like others.
        owed = 30 + 6 * (2 << 20) / size
        assert clock.monotonic() - begun == pytest.approx(owed, rel=0.01)

    simulate(scenario, seed=1)


def test_gets_keep_to_their_number_a_second_and_save_nothing_up() -> None:
    async def scenario(world: SimWorld) -> None:
        clock = world.env("a").clock
        store = Limited(memory(), clock, gets_per_second=10)
        await put(store, "a", b"data")
        await asyncio.sleep(100)
        begun = clock.monotonic()
        await asyncio.gather(*(store.get("a") for _ in range(21)))
        assert clock.monotonic() - begun == pytest.approx(2, abs=0.01)

    simulate(scenario, seed=1)


# Failing


async def test_each_trouble_is_what_it_says() -> None:
    inner = memory()
    etag = (await put(inner, "a", b"data")).etag
    store = Faulty(inner, SystemRng(), Scripted([None]))
    assert await read(store, "a") == b"data"
    await inner.put_if_match("a", BytesBody(b"next"), etag=etag)
    store.plan = Scripted([Trouble.STALE, Trouble.SHORT, Trouble.FLIPPED])
    assert await read(store, "a") == b"data"
    assert await read(store, "a") == b"nex"
    flipped = int.from_bytes(await read(store, "a"), "big") ^ int.from_bytes(b"next", "big")
    assert flipped.bit_count() == 1
    store.plan = Scripted([Trouble.UNANSWERED, Trouble.THROTTLED])
    for key in ("applied", "lost"):
        written = await store.put_if_absent(key, BytesBody(b""))
        assert written.outcome is Outcome.AMBIGUOUS
    assert await keys(inner) == ["a", "applied"]
    store.plan = Scripted([Trouble.LYING, Trouble.LYING])
    await put(store, "a", b"overwritten")
    written = await store.put_if_match("a", BytesBody(b"again"), etag='"stale"')
    assert written.outcome is Outcome.WON
    assert await read(store, "a") == b"again"


async def test_drawn_troubles_come_in_their_shares() -> None:
    plan = drawn(SystemRng(), {Trouble.SHORT: 0.5, Trouble.FLIPPED: 0.25})
    found = [plan(Request("get", "a")) for _ in range(4000)]
    assert 0.4 < found.count(Trouble.SHORT) / 4000 < 0.6
    assert 0.15 < found.count(Trouble.FLIPPED) / 4000 < 0.35
    assert None in found
