"""Scenario: group offsets that outlive their cluster.

A node tiers a topic and copies the offsets of two groups to the bucket; a client writes records and
commits behind each, for both. The store fails, goes away, lets writes land late; the node is killed
and loses power. At some moment somebody restores the cluster elsewhere: in half of the seeds since
the disk is gone, in the others although the old node still runs, with its client. Then the new node
is asked, and used.

Checked: what is restored was committed once, or is where the partition goes on; it never points
behind that; the report names every offset that was set back; while the store was well, nothing that
was acknowledged half a minute before is missing (here: a few seconds, since copies are made every
three). No write of the old life lands after the claim of the new one, and the new life's copies go
on. One seed in ten has no faults at all.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from unittest.mock import patch

from tests.simulation.broker import bounded, quiet
from tests.simulation.broker_clients import PORT
from tests.simulation.cold_node import SETTINGS as COLD
from tierlog.client import Client, ClientError, CommittedOffset, NewRecord, TopicPartition
from tierlog.client.settings import ClientSettings
from tierlog.cold.clusteroffsets import ClusterOffsets, decode_offsets
from tierlog.cold.layout import OFFSETS
from tierlog.cold.report import Report
from tierlog.cold.restore import restore
from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.groups import offsetscopy
from tierlog.groups.placing import place_offsets
from tierlog.objectstore.port import ObjectStore
from tierlog.objectstore.retrying import Retrying
from tierlog.server import Server
from tierlog.sim.objectstore import SimBucket, SimStore
from tierlog.sim.storefaults import StoreFaults
from tierlog.sim.world import HostDied, SimWorld

OLD, NEW = "node", "new"
TOPIC, PARTITIONS = "t", 2
GROUPS = ("one", "other")
CONFIGS = {"segment.bytes": "1500", "tierlog.upload.lag.max.ms": "15000"}
"""Uploads are slower than copies: a restore finds offsets behind the records that it has."""
SETTINGS = replace(COLD, offsets_topic_num_partitions=2)
PERIOD_MS = 3_000
STALE_S = 10.0
"""A copy every three seconds, a look every second, and the time of the requests."""
PAUSE_S = 0.7
STEPS_MAX = 400_000


@dataclass
class Notes:
    sent: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """What was asked for, by group and partition."""
    acked: list[tuple[float, str, int, int]] = field(default_factory=list)
    """When, group, partition, offset."""
    well_since: float = 0.0
    """When the last fault was over."""

    def least(self, group: str, partition: int, *, before: float) -> int:
        """What was acknowledged by then."""
        found = [one[3] for one in self.acked if one[1:3] == (group, partition) and one[0] < before]
        return max(found, default=-1)


class OffsetsServer(Server):
    def __init__(self, env: Env, bucket: SimBucket) -> None:
        super().__init__(env, SETTINGS)
        self._bucket = bucket

    def _open_store(self) -> ObjectStore:
        self.store = store_of(self._bucket, self._env)
        return self.store


def store_of(bucket: SimBucket, env: Env) -> ObjectStore:
    return Retrying(SimStore(bucket, env), env)


async def offsets(world: SimWorld) -> int:
    """Tells how many offsets were set back."""
    with quiet(), hasty():
        return await run(world)


@contextmanager
def hasty() -> Iterator[None]:
    with (
        patch.object(offsetscopy, "PERIOD_MS", PERIOD_MS),
        patch("tierlog.objectstore.probe.RACER_COUNT", 3),
        patch("tierlog.broker.looplag.SAMPLE_S", 1000.0),
    ):
        yield


async def run(world: SimWorld) -> int:
    world.loop.steps_max = STEPS_MAX
    rng, notes = world.rng("scenario"), Notes()
    bucket = SimBucket(world.rng("bucket"), world=world)
    living = asyncio.create_task(live(world, OLD, bucket), name="old node")
    async with bounded("the topic"):
        await world.start("owner", make_topic(world.env("owner")), what="topic")
    using = asyncio.create_task(use(world, "client", OLD, notes), name="client")
    await asyncio.sleep(20.0 + rng.random() * 20)
    if world.seed % 10:
        await torment(world, bucket, rng)
    notes.well_since = world.loop.time()
    await asyncio.sleep(rng.random() * 3 * STALE_S)
    await until_known(bucket)
    is_lost = rng.random() < 0.5
    if is_lost:
        living.cancel()
        using.cancel()
        world.lose_disk(OLD)
    began = world.loop.time()
    report = await restored(world, bucket)
    claimed = first_of(bucket, report.incarnation.number)
    check_restored(claimed, report)
    renewing = asyncio.create_task(live(world, NEW, bucket), name="new node")
    found = await asked(world, NEW, report)
    check_found(found, report, notes, claimed, began, world)
    again = Notes()
    going_on = asyncio.create_task(use(world, "client-2", NEW, again), name="second client")
    await asyncio.sleep(3 * STALE_S)
    check_lives(bucket, report.incarnation.number)
    check_fresh(last_of(bucket), again, world.loop.time() - STALE_S)
    for task in (living, using, renewing, going_on):
        task.cancel()
    return sum(len(one.set_back) for one in report.groups)


# Processes


async def live(world: SimWorld, host: str, bucket: SimBucket) -> None:
    while True:
        with suppress(HostDied, TierlogError, OSError):
            await world.start(host, serve(world.env(host), bucket), what=host)
        world.kill(host)
        await asyncio.sleep(0.2)


async def serve(env: Env, bucket: SimBucket) -> None:
    server = OffsetsServer(env, bucket)
    await server.start()
    await asyncio.shield(server.node.broken)


def client_of(env: Env, host: str) -> Client:
    settings = ClientSettings(deadline_s=5.0, request_timeout_s=3.0)
    return Client([(host, PORT)], clock=env.clock, rng=env.rng, settings=settings)


async def make_topic(env: Env) -> None:
    async with client_of(env, OLD) as client:
        while True:
            try:
                await client.create_topics(TOPIC, partitions=PARTITIONS, configs=CONFIGS)
            except ClientError:
                await asyncio.sleep(0.5)
            else:
                return


async def use(world: SimWorld, host: str, node: str, notes: Notes) -> None:
    while True:
        with suppress(HostDied):
            await world.start(host, commit(world, host, node, notes), what=host)


async def commit(world: SimWorld, host: str, node: str, notes: Notes) -> None:
    env, rng = world.env(host), world.rng(f"{host} draws")
    async with client_of(env, node) as client:
        while True:
            with suppress(ClientError):
                await once(world, client, rng, notes)
            await asyncio.sleep(PAUSE_S * rng.random())


async def once(world: SimWorld, client: Client, rng: Random, notes: Notes) -> None:
    """Write a record, and commit the place behind it."""
    partition, group = rng.randrange(PARTITIONS), rng.choice(GROUPS)
    done = await client.produce(TOPIC, partition, [NewRecord(b"x" * 40)])
    offset = done.base_offset + 1
    notes.sent.setdefault((group, partition), set()).add(offset)
    place = TopicPartition(TOPIC, partition)
    await client.commit_offsets(group, {place: CommittedOffset(offset)})
    notes.acked.append((world.loop.time(), group, partition, offset))


async def torment(world: SimWorld, bucket: SimBucket, rng: Random) -> None:
    for _ in range(6):
        fault = rng.randrange(5)
        if fault == 0:
            bucket.stop()
        elif fault == 1:
            world.kill(OLD)
        elif fault == 2:
            world.power_cut(OLD)
        else:
            share = rng.random() * 0.4
            bucket.faults = StoreFaults(
                lost_share=share * rng.random(),
                unanswered_share=share * rng.random(),
                late_share=share * rng.random(),
            )
        await asyncio.sleep(rng.random() * 8)
        bucket.start()
    bucket.faults = StoreFaults()


async def until_known(bucket: SimBucket) -> None:
    """There is something to restore: the store was well for long enough."""
    async with bounded("the first copy"):
        while not written(bucket):  # noqa: ASYNC110  # the bucket has no event
            await asyncio.sleep(0.5)


async def restored(world: SimWorld, bucket: SimBucket) -> Report:
    env = world.env(NEW)

    async def work() -> Report:
        store = store_of(bucket, env)
        return await restore(env, store, "/data", place_offsets=partial(place_offsets, env))

    async with bounded("the restore"):
        report = await world.start(NEW, work(), what="restore")
    assert report.is_complete, "nothing was damaged"
    world.kill(NEW)
    return report


async def asked(world: SimWorld, node: str, report: Report) -> dict[tuple[str, int], int]:
    """What the new node says that the groups committed."""

    async def work(env: Env) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        async with client_of(env, node) as client:
            for group in GROUPS:
                while True:
                    try:
                        known = await client.committed(group)
                    except ClientError:
                        await asyncio.sleep(0.5)
                    else:
                        break
                found |= {(group, place.partition): one.offset for place, one in known.items()}
        return found

    async with bounded("the judge"):
        return await world.start("judge", work(world.env("judge")), what="judge")


# What must be so


def written(bucket: SimBucket) -> list[ClusterOffsets]:
    """Every OFFSETS that ever was, in order."""
    return [
        decode_offsets(one.item.data) for one in bucket.landed if one.key.endswith(f"/{OFFSETS}")
    ]


def first_of(bucket: SimBucket, life: int) -> ClusterOffsets:
    found = [one for one in written(bucket) if one.incarnation.number == life]
    assert found, "the restore did not claim the offsets"
    return found[0]


def last_of(bucket: SimBucket) -> ClusterOffsets:
    return written(bucket)[-1]


def flat(value: ClusterOffsets) -> dict[tuple[str, int], int]:
    return {
        (group, spot.partition): one.offset
        for group, rows in value.groups.items()
        for spot, one in rows.items()
    }


def ends_of(report: Report) -> dict[int, int]:
    return {one.partition: one.next_offset for one in report.partitions if one.topic == TOPIC}


def check_restored(claimed: ClusterOffsets, report: Report) -> None:
    ends = ends_of(report)
    told = {(one.group, back.partition) for one in report.groups for back in one.set_back}
    behind = {key for key, offset in flat(claimed).items() if offset > ends[key[1]]}
    assert told == behind, f"the report names {told}, and {behind} pointed behind the records"


def check_found(
    found: dict[tuple[str, int], int],
    report: Report,
    notes: Notes,
    claimed: ClusterOffsets,
    began: float,
    world: SimWorld,
) -> None:
    ends = ends_of(report)
    assert found.keys() == flat(claimed).keys(), "every offset of the bucket came back"
    for (group, partition), offset in found.items():
        where = f"{group} at {TOPIC}-{partition}"
        assert offset <= ends[partition], f"{where} is at {offset}, the records end before"
        known = notes.sent[group, partition]
        assert offset in known or offset == ends[partition], f"{where} never committed {offset}"
    if began - notes.well_since > 2 * STALE_S:
        for group in GROUPS:
            for partition in range(PARTITIONS):
                least = notes.least(group, partition, before=began - STALE_S)
                at = found.get((group, partition), -1)
                assert at >= min(least, ends[partition]), f"{group} lost {least}, is at {at}"


def check_lives(bucket: SimBucket, life: int) -> None:
    lives = [one.incarnation.number for one in written(bucket)]
    assert lives == sorted(lives), "an older life wrote after a later one had begun"
    assert lives[-1] == life
    versions = [one.version for one in written(bucket)]
    assert versions == sorted(set(versions)), "two writes took the same place"


def check_fresh(last: ClusterOffsets, again: Notes, before: float) -> None:
    """The new life's copies are as fresh as the old one's were."""
    assert again.acked, "the new node takes commits"
    found = flat(last)
    for group in GROUPS:
        for partition in range(PARTITIONS):
            least = again.least(group, partition, before=before)
            assert found.get((group, partition), -1) >= least, f"{group} is not copied"
