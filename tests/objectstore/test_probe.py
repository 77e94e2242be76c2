"""The probe finds stores whose conditional writes do not hold, and accuses no other."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from tests.objectstore.contract import keys
from tests.objectstore.test_memory import LyingSwap, OverwritingCreate, RacyCreate
from tierlog.env import SystemClock, SystemRng
from tierlog.objectstore.errors import StoreLies, StoreUnavailable
from tierlog.objectstore.memory import MemoryStore
from tierlog.objectstore.port import Body, Outcome, Written
from tierlog.objectstore.probe import probe
from tierlog.objectstore.shelf import lost
from tierlog.sim import SimWorld, simulate
from tierlog.sim.objectstore import SimBucket, SimStore
from tierlog.sim.storefaults import StoreFaults


class RacySwap(MemoryStore):
    """Compares first and writes later."""

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        item = self.shelf.items.get(key)
        await asyncio.sleep(0)
        if item is not None and item.etag == etag:
            return await self.put(key, body)
        return await super().put_if_match(key, body, etag=etag)


class CreatingSwap(MemoryStore):
    """Takes If-Match for a key that is not there."""

    async def put_if_match(self, key: str, body: Body, *, etag: str) -> Written:
        is_there = key in self.shelf.items
        return await (
            super().put_if_match(key, body, etag=etag) if is_there else self.put(key, body)
        )


class RefusingCreate(MemoryStore):
    async def put_if_absent(self, key: str, body: Body) -> Written:
        return lost("never")


class SecretOverwrite(MemoryStore):
    """Says that the write was refused, and takes it."""

    async def put_if_absent(self, key: str, body: Body) -> Written:
        written = await super().put_if_absent(key, body)
        await self.put(key, body)
        return written


@pytest.mark.parametrize(
    "liar",
    [
        LyingSwap,
        OverwritingCreate,
        RacyCreate,
        RacySwap,
        CreatingSwap,
        RefusingCreate,
        SecretOverwrite,
    ],
)
async def test_a_store_that_lies_is_found_and_left_clean(
    liar: Callable[[SystemClock], MemoryStore],
) -> None:
    store = liar(SystemClock())
    with pytest.raises(StoreLies, match="If-None-Match"):
        await probe(store, SystemRng())
    assert await keys(store) == []


async def test_a_right_store_passes_and_is_left_clean() -> None:
    store = MemoryStore(SystemClock())
    await probe(store, SystemRng())
    assert await keys(store) == []


def run_probe(seed: int, faults: StoreFaults) -> str:
    async def scenario(world: SimWorld) -> str:
        bucket = SimBucket(world.rng("bucket"))
        bucket.faults = faults
        env = world.env("a")
        try:
            await probe(SimStore(bucket, env), env.rng)
        except StoreUnavailable:
            return "unavailable"
        except StoreLies:
            return "lies"
        return "fine"

    return simulate(scenario, seed=seed)


def test_trouble_alone_is_never_called_lying() -> None:
    faults = StoreFaults(
        throttled_share=0.03,
        lost_share=0.03,
        unanswered_share=0.03,
        hanging_share=0.03,
        late_share=0.03,
    )
    verdicts = {run_probe(seed, faults) for seed in range(60)}
    assert verdicts == {"fine", "unavailable"}


def test_answers_that_a_wire_garbles_are_never_called_lies() -> None:
    faults = StoreFaults(flipped_share=0.3, short_share=0.1)
    verdicts = {run_probe(seed, faults) for seed in range(60)}
    assert verdicts == {"fine", "unavailable"}


def test_a_store_that_is_away_is_not_called_lying() -> None:
    assert run_probe(1, StoreFaults(lost_share=1)) == "unavailable"


def test_a_store_that_ignores_conditions_is_found_among_other_trouble() -> None:
    faults = StoreFaults(ignores_conditions=True, unanswered_share=0.05)
    verdicts = [run_probe(seed, faults) for seed in range(20)]
    assert "fine" not in verdicts
    assert verdicts.count("lies") > 15


async def test_racers_that_are_told_to_try_again_are_no_liars() -> None:
    class Conflicts(MemoryStore):
        """409 to every second loser of a race, as S3 may answer."""

        rng = Random(1)

        async def put_if_absent(self, key: str, body: Body) -> Written:
            written = await super().put_if_absent(key, body)
            if written.outcome is Outcome.LOST and self.rng.random() < 0.5:
                return Written(outcome=Outcome.AMBIGUOUS, detail="409")
            return written

    verdicts = set()
    for _ in range(20):
        try:
            await probe(Conflicts(SystemClock()), SystemRng())
        except StoreUnavailable:
            verdicts.add("unavailable")
        else:
            verdicts.add("fine")
    assert verdicts == {"fine", "unavailable"}
