"""Scenario: holds that are placed and released while everything around them fails.

A node tiers a topic whose records live for seconds; a writer writes, somebody deletes records at
any offset, and an admin places holds by HTTP, asks again where the answer is an error or none, and
releases some of them. The store fails, goes away, answers nothing after it did what was asked, lets
writes land late; the node is killed and loses power.

Checked, with whatever was told (U7b): when a hold is told, HEAD of each of its partitions has it;
from then on every HEAD that lands has it, and starts before it, until somebody asks to release it;
when that is told, HEAD has it no more. At the end all that was acknowledged and is held can be
read. One seed in ten has no faults at all.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

from tests.http.support import calling
from tests.simulation.broker import bounded, quiet
from tests.simulation.cold_node import SETTINGS as COLD
from tests.simulation.offsets import OLD as NODE
from tests.simulation.offsets import client_of, store_of, torment
from tierlog.client import Client, ClientError, NewRecord
from tierlog.cold.codec import decode_head
from tierlog.cold.head import Head
from tierlog.env import Env
from tierlog.errors import TierlogError
from tierlog.objectstore.port import ObjectStore, Written
from tierlog.records.batch import iter_batches
from tierlog.records.record import decode_records
from tierlog.server import Server
from tierlog.sim.objectstore import SimBucket
from tierlog.sim.world import HostDied, SimWorld
from tierlog.wire.error_codes import ErrorCode

TOPIC, PARTITIONS = "t", 2
HTTP_PORT = 8080
CONFIGS = {
    "segment.bytes": "1024",
    "local.retention.ms": "300",
    "retention.ms": "6000",
    "tierlog.upload.lag.max.ms": "1500",
    "tierlog.table.enable": "false",
}
SETTINGS = replace(COLD, http=f"0.0.0.0:{HTTP_PORT}", tierlog_garbage_grace_ms=1_000)
HEADER = "x-tierlog: admin\r\n"
ANSWER_S = 40.0
STEPS_MAX = 400_000
RUN_S = 40.0


@dataclass
class Notes:
    acked: dict[int, dict[int, bytes]] = field(default_factory=lambda: {0: {}, 1: {}})
    """Records, by partition and offset."""
    told: dict[tuple[int, str], int] = field(default_factory=dict)
    """Where holds start of which the admin was told, and that nobody asked to release."""
    placed_count: int = 0
    broken: str | None = None

    def landed(self, head: Head) -> None:
        for (partition, hold_id), start in self.told.items():
            if partition != head.partition or self.broken is not None:
                continue
            if hold_id not in {one.id for one in head.holds}:
                self.broken = f"version {head.version} has lost hold {hold_id}"
            elif head.log_start > start:
                self.broken = f"version {head.version} begins behind hold {hold_id}"


class HoldBucket(SimBucket):
    notes: Notes

    def record(self, kind: str, key: str, *, host: str, written: Written) -> None:
        before = len(self.landed)
        super().record(kind, key, host=host, written=written)
        if len(self.landed) > before and key.endswith("/HEAD"):
            self.notes.landed(decode_head(self.landed[-1].item.data, key=key))

    def head(self, partition: int) -> Head | None:
        """What stands there now."""
        found = [key for key in self.shelf.items if key.endswith(f"/{partition}/HEAD")]
        return decode_head(self.shelf.items[found[0]].data, key=found[0]) if found else None

    def has(self, partition: int, hold_id: str) -> bool:
        head = self.head(partition)
        return head is not None and hold_id in {one.id for one in head.holds}


class HoldServer(Server):
    def __init__(self, env: Env, bucket: SimBucket) -> None:
        super().__init__(env, SETTINGS)
        self._bucket = bucket

    def _open_store(self) -> ObjectStore:
        self.store = store_of(self._bucket, self._env)
        return self.store


async def holds(world: SimWorld) -> int:
    """Tells how many holds the admin was told of."""
    with quiet(), hasty():
        return await run(world)


@contextmanager
def hasty() -> Iterator[None]:
    with (
        patch("tierlog.objectstore.probe.RACER_COUNT", 3),
        patch("tierlog.broker.looplag.SAMPLE_S", 1000.0),
    ):
        yield


async def run(world: SimWorld) -> int:
    world.loop.steps_max = STEPS_MAX
    bucket = HoldBucket(world.rng("bucket"), world=world)
    notes = bucket.notes = Notes()
    living = asyncio.create_task(live(world, bucket), name="node")
    async with bounded("the topic"):
        await world.start("owner", make_topic(world.env("owner")), what="topic")
    works = {"writer": write(world, notes), "deleter": delete(world, notes)}
    writing = [world.start(host, work, what=host) for host, work in works.items()]
    admin = world.start("admin", administer(world, bucket), what="admin")
    if world.seed % 10:
        await torment(world, bucket, world.rng("nemesis"))
    async with bounded("the admin"):
        await admin
    for host in works:
        world.kill(host)
    await asyncio.gather(*writing, return_exceptions=True)
    async with bounded("the last reading"):
        await world.start("judge", judge(world.env("judge"), notes), what="judge")
    living.cancel()
    assert notes.broken is None, notes.broken
    return notes.placed_count


# Processes


async def live(world: SimWorld, bucket: SimBucket) -> None:
    while True:
        with suppress(HostDied, TierlogError, OSError):
            await world.start(NODE, serve(world.env(NODE), bucket), what=NODE)
        world.kill(NODE)
        await asyncio.sleep(0.2)


async def serve(env: Env, bucket: SimBucket) -> None:
    server = HoldServer(env, bucket)
    await server.start()
    await asyncio.shield(server.node.broken)


async def make_topic(env: Env) -> None:
    async with client_of(env, NODE) as client:
        while True:
            try:
                await client.create_topics(TOPIC, partitions=PARTITIONS, configs=CONFIGS)
            except ClientError:
                await asyncio.sleep(0.5)
            else:
                return


async def write(world: SimWorld, notes: Notes) -> None:
    rng = world.rng("writer draws")
    async with client_of(world.env("writer"), NODE) as client:
        for number in range(1_000_000):
            partition, value = rng.randrange(PARTITIONS), b"%d" % number * 20
            with suppress(ClientError):
                done = await client.produce(TOPIC, partition, [NewRecord(value)])
                notes.acked[partition][done.base_offset] = value
            await asyncio.sleep(0.5 * rng.random())


async def delete(world: SimWorld, notes: Notes) -> None:
    """At any offset: what is on hold must be refused, whatever the node knows just then."""
    rng = world.rng("deleter draws")
    async with client_of(world.env("deleter"), NODE) as client:
        while True:
            partition = rng.randrange(PARTITIONS)
            if known := list(notes.acked[partition]):
                with suppress(ClientError):
                    wanted = rng.choice(known[-10:])
                    await client.delete_records(TOPIC, {partition: wanted})
            await asyncio.sleep(1.5 * rng.random())


async def administer(world: SimWorld, bucket: HoldBucket) -> None:
    """For as long as the others write; then nothing more is asked for."""
    rng, until = world.rng("admin draws"), world.loop.time() + RUN_S
    for number in range(1_000_000):
        await asyncio.sleep(3.0 * rng.random())
        if world.loop.time() > until:
            return
        told = sorted({hold_id for _, hold_id in bucket.notes.told})
        if told and rng.random() < 0.4:
            await release(bucket, rng.choice(told))
        else:
            await place(bucket, f"case-{number}", rng)


async def place(bucket: HoldBucket, hold_id: str, rng: Random) -> None:
    notes = bucket.notes
    spans = ",".join(f"{one}:{start_of(notes, one, rng)}-" for one in range(PARTITIONS))
    body = await answered("POST", id=hold_id, reason="a case", spans=spans)
    for row in body.get("partitions", ()):
        if row["error"] is None:
            where = f"hold {hold_id} on partition {row['partition']}"
            assert bucket.has(row["partition"], hold_id), f"{where} is told, and HEAD lacks it"
            notes.told[row["partition"], hold_id] = row["start"]
            notes.placed_count += 1


def start_of(notes: Notes, partition: int, rng: Random) -> str:
    """Where it begins, or a place near its end."""
    known = list(notes.acked[partition])
    return "" if not known or rng.random() < 0.5 else str(rng.choice(known[-8:]))


async def release(bucket: HoldBucket, hold_id: str) -> None:
    places = [key for key in bucket.notes.told if key[1] == hold_id]
    for key in places:
        del bucket.notes.told[key]
    await answered("DELETE", id=hold_id)
    for partition, _ in places:
        assert not bucket.has(partition, hold_id), f"hold {hold_id} is released, and HEAD has it"


async def answered(method: str, **query: str) -> dict[str, Any]:
    """The first answer that is no error to be tried again after."""
    target = f"/holds?{urlencode({'topic': TOPIC, **query})}"
    while True:
        with suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(ANSWER_S), calling(NODE, HTTP_PORT) as caller:
                caller.send(f"{method} {target} HTTP/1.1\r\nHost: node\r\n{HEADER}\r\n".encode())
                answer = await caller.answer()
            # Until the node has read its metastore, it knows no topic.
            if answer.status in (200, 409) or (answer.status == 404 and b"no hold" in answer.body):
                body: dict[str, Any] = json.loads(answer.body)
                return body
        await asyncio.sleep(1.0)


# What must be so


async def judge(env: Env, notes: Notes) -> None:
    first: dict[int, int] = {}
    for (partition, _), start in notes.told.items():
        first[partition] = min(start, first.get(partition, start))
    async with client_of(env, NODE) as client:
        for partition, start in first.items():
            found = await read_from(client, partition, start)
            for offset, value in notes.acked[partition].items():
                if offset >= start:
                    assert found.get(offset) == value, f"offset {offset} is held, and is gone"


async def read_from(client: Client, partition: int, start: int) -> dict[int, bytes]:
    """To the end. Whatever else goes wrong is tried again: the store is well by now."""
    found: dict[int, bytes] = {}
    while True:
        with suppress(ClientError):
            fetched = await client.fetch(TOPIC, partition, start)
            is_gone = fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE
            assert not is_gone, f"offset {start} is held, and the log begins behind it"
            for position, header in iter_batches(memoryview(fetched.batches)):
                batch = fetched.batches[position : position + header.size_bytes]
                found |= {one.offset: one.value or b"" for one in decode_records(batch)}
                start = max(start, header.next_offset)
            if not fetched.error and start >= fetched.high_watermark:
                return found
        await asyncio.sleep(0.1)
