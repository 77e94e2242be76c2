"""A topic that is written, uploaded and deleted while everything else goes on.

Drawn for half of the seeds. The deletion is asked for by a client, as often as it takes; a restore
that had not heard of it may bring the topic back, and then it is deleted again. In the end the
bucket has nothing of it but its receipt.
"""

import asyncio
from contextlib import suppress

from tests.simulation.broker_clients import WatchedClient
from tests.simulation.cold_clients import ColdLedger
from tests.simulation.cold_node import ColdLives
from tierlog.client import Producer, ProducerSettings
from tierlog.client.errors import ClientError
from tierlog.env import Env
from tierlog.sim.world import SimWorld

TOPIC = "doomed"
CONFIGS = {
    "segment.bytes": "1024",
    "local.retention.ms": "500",
    "tierlog.upload.lag.max.ms": "2000",
    "tierlog.table.enable": "false",
}
SWEPT_S = 900
"""How long after the last fault something of it may be left: a sweep that fails is put off for a
minute, and what lands late is found by a look that comes every minute."""


class Doomed:
    def __init__(self, world: SimWorld, ledger: ColdLedger, lives: ColdLives) -> None:
        self.is_played = world.rng("doomed").random() < 0.5
        self.topic_ids: set[str] = set()
        self._world = world
        self._ledger = ledger
        self._lives = lives

    async def play(self, env: Env) -> None:
        """Make it, write to it, delete it. What fails is the end of the play, not of the world."""
        async with WatchedClient(self._ledger, env) as client:
            with suppress(ClientError):
                made = await client.create_topics(TOPIC, partitions=2, configs=CONFIGS)
                self.topic_ids.add(made[TOPIC].topic_id.hex())
                settings = ProducerSettings(delivery_timeout_s=20.0)
                async with Producer(client, settings) as producer:
                    for number in range(20):
                        await producer.send(TOPIC, b"%d" % number * 100, partition=number % 2)
                        await asyncio.sleep(env.rng.random())
            with suppress(ClientError):
                await client.delete_topics(TOPIC)

    async def until_swept(self) -> None:
        """Liveness. A store that lied may have made it impossible."""
        oracle = self._lives.bucket.oracle
        if not self.is_played or not oracle.trusts:
            return
        for _ in range(SWEPT_S):
            if not self._left():
                return
            await self._world.start("deleter", self._delete(self._world.env("deleter")), what="del")
            self._world.kill("deleter")
            await asyncio.sleep(5.0)
        raise AssertionError(f"left of a deleted topic: {self._left()[:3]}")

    async def _delete(self, env: Env) -> None:
        async with WatchedClient(self._ledger, env) as client:
            with suppress(ClientError):
                await client.delete_topics(TOPIC)

    def _left(self) -> list[str]:
        items = self._lives.bucket.shelf.items
        known = {place.topic_id for place in self._ledger.places}
        return [key for key in items if "/t/" in key and key.split("/t/")[1][:32] not in known]
