"""The client that makes and deletes topics, and the last reading of a place."""

import asyncio
from dataclasses import dataclass, field

from tests.simulation.broker_clients import DELIVERY_S, Ledger, WatchedClient, send
from tierlog.client import (
    EARLIEST,
    LATEST,
    Client,
    ClientError,
    Consumer,
    Producer,
    ProducerSettings,
)
from tierlog.client.values import TopicPartition
from tierlog.env import Env
from tierlog.sim.history import History, Place
from tierlog.wire.error_codes import ErrorCode

PARTITIONS = 2
RECORDS = 6


@dataclass(slots=True)
class Owner:
    """Makes a topic, fills it, reads it, deletes it, and makes it again under the same name.

    After an answer that never came, a late copy of the request may still hit a topic of that name:
    from then on the name is in doubt, and only what is read is held to what was sent.
    """

    name: str
    ledger: Ledger
    left: int
    number: int = 0
    in_doubt: bool = False
    lives: int = 0
    places: list[Place] = field(default_factory=list)
    """Of the topic's present life: an owner that is killed never reads them."""

    @property
    def topic(self) -> str:
        return f"passing-{self.number}"

    async def run(self, env: Env) -> None:
        self.in_doubt = self.in_doubt or self.lives > 0
        self.lives += 1
        self._abandon_unread()
        settings = ProducerSettings(delivery_timeout_s=DELIVERY_S)
        async with WatchedClient(self.ledger, env) as client, Producer(client, settings) as it:
            while self.left:
                self.left -= 1
                if self.in_doubt and env.rng.random() < 0.5:
                    self.number += 1
                    self.in_doubt = False
                await self._pass(env, client, it)

    async def _pass(self, env: Env, client: Client, producer: Producer) -> None:
        """One life of the topic."""
        self.places = []
        try:
            made = await client.create_topics(
                self.topic, partitions=PARTITIONS, configs={"segment.bytes": "2048"}
            )
            topic_id = made[self.topic].topic_id.hex()
            self.places = places = [
                Place(self.topic, topic_id, index) for index in range(PARTITIONS)
            ]
            await self._fill(env, producer, places)
            if not await self._is(client, topic_id):
                self.ledger.history.abandoned |= set(places)
            for place in places:
                await read_whole(self.ledger.history, client, place)
            if not await self._is(client, topic_id):  # Then something else was read.
                self.ledger.history.abandoned |= set(places)
            await client.delete_topics(self.topic)
            await self._is(client, None)
        except ClientError:
            # Whoever cannot say what became of a request leaves the name to others, or wonders.
            self.in_doubt = True
            self._abandon_unread()
            await self._try_to_delete(client)

    def _abandon_unread(self) -> None:
        history = self.ledger.history
        history.abandoned |= {place for place in self.places if place not in history.finals}

    async def _try_to_delete(self, client: Client) -> None:
        try:
            await client.delete_topics(self.topic)
        except ClientError:
            await asyncio.sleep(0.1)

    async def _fill(self, env: Env, producer: Producer, places: list[Place]) -> None:
        name = f"{self.name}.{self.lives}"
        for _ in range(RECORDS):
            place = places[env.rng.randrange(PARTITIONS)]
            await send(self.ledger, env, producer, place, name=name)
        await producer.flush()

    async def _is(self, client: Client, wanted: str | None) -> bool:
        """Whether the topic has this id, or with None: is not there."""
        (found,) = (await client.metadata([self.topic])).topics
        gone = found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        seen = None if gone else found.topic_id.hex()
        if seen != wanted and not self.in_doubt:
            self.ledger.complaints.append(f"{self.topic} should be {wanted} and is {seen}")
        return seen == wanted


async def read_whole(history: History, client: Client, place: Place) -> None:
    """The last reading of a place."""
    consumer = Consumer(client)
    start = (await client.list_offsets(place.topic, {place.partition: EARLIEST}))[place.partition]
    end = (await client.list_offsets(place.topic, {place.partition: LATEST}))[place.partition]
    await consumer.assign(place.topic, [place.partition], start=start.offset)
    key = TopicPartition(place.topic, place.partition)
    records = [(each.offset, each.value or b"") async for each in consumer.until({key: end.offset})]
    history.read_whole(place, log_start=start.offset, end=end.offset, records=records)
