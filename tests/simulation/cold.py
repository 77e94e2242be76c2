"""Scenario: one node, its bucket, and a history that leaves the disk while clients read it.

The node is composed as in production and tiers everything: segments of a kilobyte or two, sealed
and uploaded within seconds, dropped from the disk soon after. Writers (idempotent and plain) write;
one reader reads everything from the start again and again, one seeks anywhere and reads on over the
seam between the tiers, and trims now and then. The store refuses, hangs, answers nothing after it
did what was asked, lets writes land late, cuts and flips answers, goes away for seconds or hours.
The node is stopped, killed (also in the middle of a request), loses power, its disk, one log, or
its identity to a copy of itself. A lost disk is restored from the bucket, a lost log begins where
the bucket ends: then what was published is promised, and no more. In one seed of three records
expire, and their objects go after a short grace. In half of the seeds a topic is deleted and swept;
in three of four small segments are merged; orphans are collected all the time, and the scrubber
walks over everything. In one seed of ten the store lies about conditional writes; one in ten has no
faults at all.

Checked at every step: the invariants of `cold_oracle` and `cold_watch`. At the end: that everything
came to the bucket, and, after one more end of the process, the history of all clients
(`tierlog.sim.verdict`).
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from unittest.mock import patch

from tests.simulation import cold_node
from tests.simulation.broker import bounded, check_id, quiet, unless_over
from tests.simulation.broker_clients import (
    DELIVERY_S,
    WatchedClient,
    Work,
    probe,
    run_client,
)
from tests.simulation.cold_clients import (
    ColdHistory,
    ColdLedger,
    ColdWriter,
    Replayer,
    Seeker,
    noting_producer,
    read_to_the_end,
)
from tests.simulation.cold_deletion import Doomed
from tests.simulation.cold_faults import torment
from tests.simulation.cold_node import ColdLives
from tests.simulation.cold_oracle import WatchedBucket, Where
from tests.simulation.cold_tally import tally
from tierlog.client import ProducerSettings
from tierlog.cold import merging
from tierlog.cold.changes import Append, Replace
from tierlog.cold.scrubsettings import ScrubSettings
from tierlog.cold.tiersettings import TierSettings
from tierlog.cold.tree import Limits
from tierlog.env import Env
from tierlog.sim.history import Place
from tierlog.sim.verdict import anomalies
from tierlog.sim.world import SimWorld

TOPICS = {
    "short": (2, {"segment.bytes": "1024", "local.retention.ms": "500"}),
    "sized": (1, {"segment.bytes": "2048", "local.retention.bytes": "3000"}),
}
EXPIRING = {
    "short": {"retention.ms": "15000"},
    "sized": {"retention.bytes": "9000"},
}
"""In one seed of three records expire, and their objects are deleted within seconds."""
COMMON = {"tierlog.upload.lag.max.ms": "2000", "index.interval.bytes": "256"}
TABLES: dict[bool, dict[str, str]] = {True: {}, False: {"tierlog.table.enable": "false"}}
"""In one seed of five history is kept as a table, too: it makes a seed several times as long."""
WRITES = 25
STEPS_MAX = 300_000
"""Some ten thousand callbacks are a seed, a hundred thousand one with hours of outage."""
UPLOADED_S = 300
"""How long after the last fault a record may still be on the disk alone: the longest pause between
two tries is a minute."""

ORPHAN_INTERVAL_MS = 4_000
ORPHANS_S = 3 * ORPHAN_INTERVAL_MS / 1000
"""Long enough for two looks at all that nobody refers to."""

SIGHTING_MS = 3_600_000
"""Between two sightings of an orphan where the store lies: what a lost write took from the manifest
is put back long before, as soon as its node or a probe finds out. Of a node it is a week."""

SCRUB = ScrubSettings(
    manifest_period_ms=2_000,
    object_period_ms=3_000,
    byte_period_ms=4_000,
    probe_period_ms=20_000,
    sum_period_ms=500,
    save_period_ms=1_000,
)
"""Lives are short: everything is looked at a few times in each."""

PRODUCERS = {
    "writer-0": ProducerSettings(delivery_timeout_s=DELIVERY_S),
    "writer-1": ProducerSettings(delivery_timeout_s=DELIVERY_S, linger_s=0.02),
    "writer-2": ProducerSettings(delivery_timeout_s=DELIVERY_S, idempotent=False),
}
CLIENTS = [*PRODUCERS, "replayer", "seeker"]


async def cold(world: SimWorld) -> Counter[str]:
    """Tells what happened, and how often."""
    with quiet(), small(lies=lies(world)), merges() if world.seed % 4 else nullcontext():
        return await run(world)


def lies(world: SimWorld) -> bool:
    """Whether the store may ignore conditions."""
    return world.seed % 10 == 3


@contextmanager
def small(*, lies: bool = False) -> Iterator[None]:
    """Constants for a life of a minute: pages of few entries, a probe of few racers, no sampling
    of a loop that has no lag."""
    with ExitStack() as stack:
        limits = Limits(entries_inline=4, leaf_entries=4, leaves_inline=2, index_leaves=4)
        stack.enter_context(patch.dict(Append.__init__.__kwdefaults__, limits=limits))
        stack.enter_context(patch("tierlog.objectstore.probe.RACER_COUNT", 3))
        stack.enter_context(patch("tierlog.broker.looplag.SAMPLE_S", 1000.0))
        # Orphans are collected at their second sighting, however young: what is in flight counts.
        hasty = {
            "orphan_interval_ms": ORPHAN_INTERVAL_MS,
            "orphan_age_ms": 0,
            "orphan_sighting_ms": SIGHTING_MS if lies else 0,
        }
        stack.enter_context(patch.dict(TierSettings.__init__.__kwdefaults__, hasty))
        stack.enter_context(patch("tierlog.cold.orphanfinder.ROUNDS_A_WEEK", 1))
        stack.enter_context(patch("tierlog.broker.tiering.scrub_settings_of", lambda _: SCRUB))
        yield


@contextmanager
def merges() -> Iterator[None]:
    """Neighbours are merged as soon as they have left the disk, however few and large they are."""
    with ExitStack() as stack:
        hasty = replace(cold_node.SETTINGS, tierlog_merge_interval_ms=700)
        stack.enter_context(patch.object(cold_node, "SETTINGS", hasty))
        stack.enter_context(patch.multiple(merging, RUN_MIN=2, GROWTH=1.5))
        stack.enter_context(patch.object(merging, "target_of", lambda *_, **__: 16 << 10))
        stack.enter_context(patch.object(merging, "span_of", lambda _: merging.NO_LIMIT))
        limits = (Append.__init__.__kwdefaults__ or {})["limits"]
        stack.enter_context(patch.dict(Replace.__init__.__kwdefaults__, limits=limits))
        yield


async def run(world: SimWorld) -> Counter[str]:
    world.loop.steps_max = STEPS_MAX
    bucket = WatchedBucket(world.rng("bucket"), world=world)
    bucket.oracle.trusts = not lies(world)
    bucket.oracle.expires = world.seed % 3 == 2
    ledger = ColdLedger(world, oracle=bucket.oracle)
    lives = ColdLives(world, ledger, bucket)
    with every_step(world, lives):
        running = asyncio.create_task(lives.run(), name="lives")
        await world.start("owner", make_topics(world.env("owner"), ledger), what="make topics")
        clients = start_clients(world, ledger)
        doomed = Doomed(world, ledger, lives)
        if doomed.is_played:
            clients["deleter"] = asyncio.create_task(run_client(world, "deleter", doomed.play))
        if world.seed % 10:
            await torment(world, lives, world.rng("nemesis"), clients=CLIENTS)
            await lives.end_twin()
        await finish(ledger, clients, running)
        async with bounded("the probe"):
            work = probe(world.env("judge"), ledger, partial(noting_producer, ledger))
            await world.start("judge", work, what="probe")
        await settle(world, lives)
        await doomed.until_swept()
        async with bounded("the last reading"):
            await world.start("judge", read_all(world.env("judge"), ledger), what="judge")
        running.cancel()
    bucket.oracle.check_all()
    found = anomalies(ledger.history)
    assert not found, "; ".join(str(each) for each in found[:5])
    assert not ledger.complaints, ledger.complaints[0]
    return tally(lives, ledger)


@contextmanager
def every_step(world: SimWorld, lives: ColdLives) -> Iterator[None]:
    """Look at the node and its bucket before every callback."""
    world.loop.before_callback = lives.watch.step
    try:
        yield
    finally:
        world.loop.before_callback = None


async def make_topics(env: Env, ledger: ColdLedger) -> None:
    async with WatchedClient(ledger, env) as client:
        for name, (count, configs) in TOPICS.items():
            more = EXPIRING[name] if ledger.oracle.expires else {}
            wanted = configs | COMMON | more | TABLES[ledger.world.seed % 5 == 0]
            made = await client.create_topics(name, partitions=count, configs=wanted)
            topic_id = made[name].topic_id.hex()
            places = [Place(name, topic_id, index) for index in range(count)]
            ledger.places += places
            if ledger.oracle.expires:
                ledger.history.expiring |= set(places)
                for place in places:
                    where = Where(place.topic_id, place.partition)
                    ledger.oracle.retention_ms[where] = int(more.get("retention.ms", -1))


def start_clients(world: SimWorld, ledger: ColdLedger) -> dict[str, "asyncio.Task[None]"]:
    works: dict[str, Work] = {
        **{
            name: ColdWriter(name, ledger, WRITES, settings, pause_s=2.0).run
            for name, settings in PRODUCERS.items()
        },
        "replayer": Replayer("replayer", ledger, pause_s=0.4).run,
        "seeker": Seeker("seeker", ledger, pause_s=0.8).run,
    }
    return {
        host: asyncio.create_task(run_client(world, host, work), name=host)
        for host, work in works.items()
    }


async def finish(
    ledger: ColdLedger, clients: dict[str, "asyncio.Task[None]"], running: "asyncio.Task[None]"
) -> None:
    """All who write come to their end, then all who read."""
    readers = [clients.pop("replayer"), clients.pop("seeker")]
    async with bounded("the writers"):
        await unless_over(running, clients.values())
    ledger.over = True
    async with bounded("the readers"):
        await unless_over(running, readers)


async def settle(world: SimWorld, lives: ColdLives) -> None:
    """Everything comes to the bucket in time, unless the process ends before."""
    rng = world.rng("end")
    await lives.end_twin()
    if rng.random() < 0.3:
        await lives.end_somehow(rng)
    await until_uploaded(lives)
    await asyncio.sleep(ORPHANS_S)
    await lives.end_somehow(rng)


async def until_uploaded(lives: ColdLives) -> None:
    """Liveness: nothing stays on the disk alone. A store that lied may have made that impossible:
    a node that cannot say which HEAD is the right one publishes none."""
    for _ in range(UPLOADED_S):
        if not lives.bucket.oracle.trusts or not not_uploaded(lives):
            return
        await asyncio.sleep(1.0)
    raise AssertionError(f"not uploaded within {UPLOADED_S} s: {not_uploaded(lives)[:1]}")


def not_uploaded(lives: ColdLives) -> list[str]:
    tier, ends = lives.watch.tier, lives.bucket.oracle.ends
    if tier is None:
        return ["there is no node"]
    return [
        f"{where} ends at {partition.log.log_end}, in the bucket at {ends[where]}: "
        f"{partition.status.last_error or tier.last_error}"
        for key, partition in tier.partitions.items()
        if ends[where := Where(*key)] < partition.log.log_end
    ]


async def read_all(env: Env, ledger: ColdLedger) -> None:
    assert isinstance(ledger.history, ColdHistory)
    async with WatchedClient(ledger, env) as client:
        for place in ledger.places:
            await check_id(client, place)
            await read_to_the_end(client, ledger, place)
