"""The clients of the simulated broker: each does its work and notes what it saw.

All of them use our own client over the simulated network, from a host of their own. A client whose
process is killed is started again and goes on with what it had left to do; what it had under way is
a maybe for ever.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from tierlog.client import (
    EARLIEST,
    BadAnswer,
    BrokerError,
    Client,
    ClientError,
    ClientSettings,
    Consumer,
    NewRecord,
    OutcomeUnknown,
    Placed,
    Producer,
    ProducerFailed,
    ProducerSettings,
)
from tierlog.client.router import Router
from tierlog.client.values import TopicPartition
from tierlog.env import Env
from tierlog.records.batch import iter_batches, validate_stored
from tierlog.records.record import decode_records
from tierlog.sim.history import History, Outcome, Place, Sent
from tierlog.sim.world import HostDied, SimWorld
from tierlog.wire.error_codes import ErrorCode

NODE, PORT = "node", 9092
CLIENT = ClientSettings(connect_timeout_s=1.0, request_timeout_s=2.0, deadline_s=10.0)
DELIVERY_S = 12.0
VALUE_BYTES_MAX = 400

NEVER_MET = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Nothing in the simulated world is a reason for these."""

Work: TypeAlias = Callable[[Env], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Ledger:
    """What all clients share."""

    world: SimWorld
    history: History = field(default_factory=History)
    places: list[Place] = field(default_factory=list)
    """The partitions of the lasting topics."""
    complaints: list[str] = field(default_factory=list)
    """Things that must never happen to a client, whatever the machines do."""
    over: bool = False
    """Nothing more is written: readers may end."""
    serial: int = 0
    never_met: frozenset[ErrorCode] = NEVER_MET

    def value(self, env: Env) -> bytes:
        """One of a kind."""
        self.serial += 1
        return b"%d/" % self.serial + env.rng.randbytes(env.rng.randrange(VALUE_BYTES_MAX))

    def life(self) -> int:
        """The number of the node's process."""
        return self.world.host(NODE).life.number


class WatchedRouter(Router):
    """Notes what no client may ever meet."""

    ledger: Ledger

    def note(self, error: ClientError, topic: str | None = None) -> None:
        cause = error.__cause__
        if isinstance(error, BadAnswer) or isinstance(cause, BadAnswer):
            self.ledger.complaints.append(f"a bad answer: {error}")
        if isinstance(error, BrokerError) and error.code in self.ledger.never_met:
            self.ledger.complaints.append(f"nobody gave a reason for this: {error}")
        super().note(error, topic)


class WatchedClient(Client):
    def __init__(self, ledger: Ledger, env: Env) -> None:
        self._router = router = WatchedRouter(
            [(NODE, PORT)], clock=env.clock, rng=env.rng, settings=CLIENT
        )
        router.ledger = ledger


async def run_client(world: SimWorld, host: str, work: Work) -> None:
    """Run it to its end, through as many lives as it takes."""
    while True:
        try:
            return await world.start(host, work(world.env(host)), what=host)
        except HostDied:
            await asyncio.sleep(0.1)


# Writers


@dataclass(slots=True)
class Writer:
    """Sends records through a `Producer`, several at a time."""

    name: str
    ledger: Ledger
    left: int
    settings: ProducerSettings
    pause_s: float = 0.4
    lives: int = 0

    async def run(self, env: Env) -> None:
        async with WatchedClient(self.ledger, env) as client:
            while self.left:
                self.lives += 1
                producer = self.make_producer(client)
                try:
                    await self._send_all(env, producer)
                    await producer.flush()
                except ProducerFailed:
                    pass  # It says so itself and wants to be made anew.
                finally:
                    await producer.close(flush=False)

    def make_producer(self, client: Client) -> Producer:
        return Producer(client, self.settings)

    async def _send_all(self, env: Env, producer: Producer) -> None:
        places = self.ledger.places
        while self.left:
            self.left -= 1
            if env.rng.random() < 0.5:
                await asyncio.sleep(env.rng.random() * self.pause_s)
            place = places[env.rng.randrange(len(places))]
            await send(self.ledger, env, producer, place, name=f"{self.name}.{self.lives}")


async def send(
    ledger: Ledger, env: Env, producer: Producer, place: Place, *, name: str
) -> "asyncio.Future[Placed] | None":
    """Hand one record to the producer and note what becomes of it."""
    history = ledger.history
    sent = history.send_began(
        place,
        producer=name,
        value=ledger.value(env),
        idempotent=producer.settings.idempotent,
    )
    try:
        future = await producer.send(place.topic, sent.value, partition=place.partition)
    except ClientError as error:
        history.send_ended(sent, Outcome.FAILED)
        if isinstance(error, ProducerFailed):
            raise
        return None
    future.add_done_callback(partial(note_outcome, history, sent))
    return future


def note_outcome(history: History, sent: Sent, future: "asyncio.Future[Placed]") -> None:
    if future.cancelled():
        return
    error = future.exception()
    if error is None:
        history.send_ended(sent, Outcome.OK, future.result().offset)
    elif isinstance(error, OutcomeUnknown):
        history.send_ended(sent, Outcome.MAYBE)
    else:
        history.send_ended(sent, Outcome.FAILED)


async def probe(
    env: Env, ledger: Ledger, make_producer: Callable[[Client], Producer] = Producer
) -> None:
    """When nothing is wrong any more, every place takes a record."""
    async with WatchedClient(ledger, env) as client, make_producer(client) as producer:
        futures = [await send(ledger, env, producer, each, name="probe") for each in ledger.places]
        for place, future in zip(ledger.places, futures, strict=True):
            assert future is not None, f"{place} takes no record"
            try:
                await future
            except ClientError as error:
                raise AssertionError(f"{place} takes no record: {error}") from error


@dataclass(slots=True)
class HastyWriter:
    """Sends single batches with acks=1: a promise for as long as the machine has power."""

    name: str
    ledger: Ledger
    left: int

    async def run(self, env: Env) -> None:
        places = self.ledger.places
        async with WatchedClient(self.ledger, env) as client:
            while self.left:
                self.left -= 1
                await asyncio.sleep(env.rng.random() * 0.3)
                await self._send(env, client, places[env.rng.randrange(len(places))])

    async def _send(self, env: Env, client: Client, place: Place) -> None:
        history = self.ledger.history
        sent = history.send_began(
            place,
            producer=self.name,
            value=self.ledger.value(env),
            idempotent=False,
            durable=False,
        )
        try:
            placed = await client.produce(
                place.topic, place.partition, [NewRecord(sent.value)], acks=1
            )
        except OutcomeUnknown:
            history.send_ended(sent, Outcome.MAYBE)
        except BrokerError as error:
            sure = error.code is not ErrorCode.KAFKA_STORAGE_ERROR
            history.send_ended(sent, Outcome.FAILED if sure else Outcome.MAYBE)
        except ClientError:
            history.send_ended(sent, Outcome.FAILED)
        else:
            history.send_ended(sent, Outcome.OK, placed.base_offset)


# Readers


@dataclass(slots=True)
class Follower:
    """Reads everything in order with a `Consumer`."""

    name: str
    ledger: Ledger
    pause_s: float = 0.1

    async def run(self, env: Env) -> None:
        await self.follow(env)

    async def follow(self, env: Env, polls_max: float = float("inf")) -> None:
        async with WatchedClient(self.ledger, env) as client:
            consumer = Consumer(client, partition_bytes_max=2000, deadline_s=3.0)
            while not self.ledger.over and polls_max > 0:
                polls_max -= 1
                try:
                    await self._poll(env, consumer)
                except ClientError:
                    await self._start_anew(consumer)

    async def _start_anew(self, consumer: Consumer) -> None:
        """Behind an end that went back, or before a start that moved: both are out of range."""
        try:
            for topic in sorted({place.topic for place in self.ledger.places}):
                await consumer.assign(topic, start=EARLIEST)
        except ClientError:
            await asyncio.sleep(0.1)

    async def _poll(self, env: Env, consumer: Consumer) -> None:
        if not consumer.positions:
            await self._start_anew(consumer)
        if not consumer.positions:
            return
        history = self.ledger.history
        began, before = history.moment(), dict(consumer.positions)
        records = await consumer.poll(max_wait_ms=200)
        for place in self.ledger.places:
            key = TopicPartition(place.topic, place.partition)
            if key in before:
                history.polled(
                    place,
                    began=began,
                    asked=before[key],
                    next=consumer.positions[key],
                    records=[
                        (each.offset, each.value or b"")
                        for each in records
                        if (each.topic, each.partition) == key
                    ],
                )
        await asyncio.sleep(env.rng.random() * self.pause_s)


@dataclass(slots=True)
class Peeker:
    """Fetches here and there, looks at watermarks and leader epochs, now and then trims."""

    name: str
    ledger: Ledger
    pause_s: float = 0.15

    async def run(self, env: Env) -> None:
        async with WatchedClient(self.ledger, env) as client:
            ends: dict[Place, int] = {}
            while not self.ledger.over:
                await asyncio.sleep(env.rng.random() * self.pause_s)
                place = self.ledger.places[env.rng.randrange(len(self.ledger.places))]
                try:
                    await self._look(env, client, place, ends)
                except ClientError:
                    continue

    async def _look(self, env: Env, client: Client, place: Place, ends: dict[Place, int]) -> None:
        chance = env.rng.random()
        end = ends.get(place, 0)
        if chance < 0.05 and end:
            await self._trim(client, place, env.rng.randrange(end + 1))
        elif chance < 0.2:
            await self._ask_epochs(client, place.topic)
        else:
            asked = max(0, end - env.rng.randrange(12))
            ends[place] = await self._peek(env, client, place, asked)

    async def _peek(self, env: Env, client: Client, place: Place, asked: int) -> int:
        """Tells the high watermark."""
        history = self.ledger.history
        began = history.moment()
        fetched = await client.fetch(
            place.topic,
            place.partition,
            asked,
            max_wait_ms=50,
            max_bytes=1 + env.rng.randrange(3000),
        )
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return max(fetched.high_watermark, 0)
        if fetched.error:
            raise BrokerError(fetched.error)
        records, next_offset = opened(fetched.batches, asked)
        history.polled(
            place,
            began=began,
            asked=asked,
            next=next_offset,
            records=records,
            high_watermark=fetched.high_watermark,
            log_start=fetched.log_start,
        )
        return fetched.high_watermark

    async def _trim(self, client: Client, place: Place, offset: int) -> None:
        self.ledger.history.trim_began(place, offset)
        await client.delete_records(place.topic, {place.partition: offset})

    async def _ask_epochs(self, client: Client, topic: str) -> None:
        life = self.ledger.life()
        answer = await client.metadata([topic])
        if life != self.ledger.life():
            return  # Which of the two lives answered?
        for found in answer.topics:
            for each in found.partitions:
                place = Place(topic, found.topic_id.hex(), each.partition_index)
                if place in self.ledger.places:
                    self.ledger.history.led(place, leader_epoch=each.leader_epoch, life=life)


def opened(batches: Any, asked: int) -> tuple[list[tuple[int, bytes]], int]:
    """The records from `asked` on, and where the next batch begins."""
    view = memoryview(batches)
    records: list[tuple[int, bytes]] = []
    next_offset = asked
    for position, header in iter_batches(view):
        batch = view[position : position + header.size_bytes]
        validate_stored(batch)
        records += [(each.offset, each.value or b"") for each in decode_records(batch)]
        next_offset = max(next_offset, header.next_offset)
    return [record for record in records if record[0] >= asked], next_offset
