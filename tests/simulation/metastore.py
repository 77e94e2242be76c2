"""Scenario: writers and a watcher on a node's metastore while its machine misbehaves.

Writers put, delete and compare; a watcher keeps a copy of the store by listing once and watching
from there. Meanwhile the process is killed, the machine loses power between callbacks and in the
middle of disk operations, syncs fail and drop what they were to write, and the disk fills up. A
node whose store broke is started again.

Checked whenever a node starts, and at the end after one more power cut: the store is what some
prefix of the transactions made of it, nothing that anybody was told of is missing from it, and what
once was lost does not come back. Checked at every event: revisions rise, and the watcher's copy is
the store.
"""

import asyncio
import logging
from random import Random

from tests.metastore.crash import (
    JOURNAL_BYTES_MIN,
    KEYS,
    ROOMY,
    Attempt,
    Known,
    Model,
    allowed,
)
from tierlog.env import Env
from tierlog.metastore import (
    Compare,
    Delete,
    Event,
    LocalMetaStore,
    MetaStoreBroken,
    MetaStoreClosed,
    MetaStoreFull,
    MetaStoreUnavailable,
    Put,
)
from tierlog.sim.world import HostDied, SimWorld

NODE, PATH = "node", "/data/meta"
WRITERS = 3
WRITES = 40
FAULT_COUNT = 12


class Ledger:
    """What the outside world knows, and how much it was told in all."""

    def __init__(self) -> None:
        self.known = Known()
        self.told = 0


async def metastore(world: SimWorld) -> int:
    """Tells how many transactions were acknowledged."""
    logger = logging.getLogger("tierlog.metastore")
    level = logger.level
    logger.setLevel(logging.ERROR)  # Torn tails are the daily bread here.
    try:
        return await run(world, Ledger())
    finally:
        logger.setLevel(level)


async def run(world: SimWorld, ledger: Ledger) -> int:
    nemesis = asyncio.create_task(torment(world, world.rng("nemesis")), name="nemesis")
    while not nemesis.done():
        try:
            await world.start(NODE, live(world.env(NODE), ledger), what="live")
        except HostDied:
            pass
        except (MetaStoreBroken, MetaStoreUnavailable):
            world.kill(NODE)
        await asyncio.sleep(0.05)
    await nemesis
    world.power_cut(NODE)
    await world.start(NODE, open_checked(world.env(NODE), ledger), what="check")
    return ledger.told


async def live(env: Env, ledger: Ledger) -> None:
    """One life: open, be checked, serve, close in order if it gets that far."""
    store = await open_checked(env, ledger)
    watching = env.tasks.spawn(follow(store, ledger), name="follow")
    faults = await asyncio.gather(
        *(write(env, store, ledger) for _ in range(WRITERS)), return_exceptions=True
    )
    for fault in filter(None, faults):
        raise fault
    ledger.known.attempts.append(Attempt())  # Closing ends the sessions.
    await store.close()
    await watching
    ledger.known.shown = list(ledger.known.states())[-1][0]


async def open_checked(env: Env, ledger: Ledger) -> LocalMetaStore:
    store = await LocalMetaStore.open(env, PATH, journal_bytes_min=JOURNAL_BYTES_MIN)
    entries, revision = await store.list("")
    found: Model = {
        each.key: (each.value, each.revision, each.created, bool(each.session)) for each in entries
    }
    assert (revision, found) in allowed(ledger.known), f"revision {revision} is no prefix"
    # What is not there now never happened.
    ledger.known = Known(base=(revision, found), shown=revision)
    return store


async def write(env: Env, store: LocalMetaStore, ledger: Ledger) -> None:
    session = store.session(ttl_ms=1000)
    await session.start()
    for _ in range(WRITES):
        await asyncio.sleep(env.rng.random() * 0.02)
        key = KEYS[env.rng.randrange(len(KEYS))]
        entry = await store.get(key)
        seen = 0 if entry is None else entry.revision
        known = ledger.known
        known.shown = max(known.shown, seen)
        other = KEYS[env.rng.randrange(len(KEYS))]
        under = session if env.rng.random() < 0.1 else None
        put = Put(key, env.rng.randbytes(env.rng.randrange(900)), under)
        compares = (Compare(key, seen),) if env.rng.random() < 0.5 else ()
        attempt = Attempt(compares, (put,) if other == key else (put, Delete(other)))
        known.attempts.append(attempt)
        try:
            result = await store.txn(attempt.compares, attempt.changes)
        except MetaStoreFull:
            known.refused |= {n for n, each in enumerate(known.attempts) if each is attempt}
            await asyncio.sleep(0.1)
            continue
        known.shown = max(known.shown, result.revision)
        ledger.told += result.succeeded


async def follow(store: LocalMetaStore, ledger: Ledger) -> None:
    entries, revision = await store.list("")
    copy = {each.key: each.value for each in entries}
    try:
        async for events in store.watch("/", after=revision):
            assert {each.revision for each in events} == {revision + 1}, "one txn, the next"
            revision += 1
            ledger.known.shown = max(ledger.known.shown, revision)
            take(copy, events)
            now, at = await store.list("")
            if at == revision:
                assert copy == {each.key: each.value for each in now}
    except (MetaStoreBroken, MetaStoreClosed):
        return


def take(copy: dict[str, bytes], events: list[Event]) -> None:
    for event in events:
        if event.value is None:
            del copy[event.key]
        else:
            copy[event.key] = event.value


# The faults


async def torment(world: SimWorld, rng: Random) -> None:
    disk = world.disk(NODE)
    for _ in range(FAULT_COUNT):
        await asyncio.sleep(rng.random() * 0.6)
        disk.capacity = ROOMY
        fault = rng.randrange(8)
        if fault == 0:
            world.kill(NODE)
        elif fault == 1:
            world.power_cut(NODE)
        elif fault <= 4:
            if disk.on_op is None:
                world.power_cut_after(NODE, 1 + rng.randrange(60))
        elif fault == 5:
            disk.fail_fsync(rng=rng)
        elif fault == 6:
            disk.fail_sync_dir()
        else:
            disk.capacity = disk.used + rng.randrange(3) * 4096
    disk.capacity = ROOMY
    disk.on_op = None
    disk.forget_faults()
