"""The clients of the simulated cold tier, and the history that a lost disk leaves of theirs.

They write, read from the start, seek back and read over the seam between the tiers. What they are
served is compared with the bucket byte by byte. When a disk is lost and its node restored, what was
not published is taken out of the history: nobody promised it.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulation.broker_clients import (
    Follower,
    Ledger,
    Peeker,
    Writer,
    opened,
)
from tests.simulation.cold_oracle import Oracle, Where
from tierlog.client import (
    EARLIEST,
    LATEST,
    BrokerError,
    Client,
    Consumer,
    Producer,
    ProducerSettings,
)
from tierlog.client.window import Identity
from tierlog.env import Env
from tierlog.sim.history import UNKNOWN, History, Outcome, Place, Polled, Sent
from tierlog.wire.error_codes import ErrorCode

FETCHES = 4
"""Of one reading from a place that was sought."""


class Rewind(NamedTuple):
    """The place lost everything from `end` on at this moment."""

    moment: int
    end: int


class ColdHistory(History):
    """Knows what a lost disk takes with it."""

    __slots__ = ("rewinds",)

    def __init__(self) -> None:
        super().__init__()
        self.rewinds: dict[Place, list[Rewind]] = {}

    def rewind(self, place: Place, end: int) -> None:
        """The place was restored from the bucket, and goes on at `end`."""
        rewind = Rewind(self.moment(), end)
        self.rewinds.setdefault(place, []).append(rewind)
        self.polls[place] = [_shortened(each, end) for each in self.polls[place]]
        for sent in self.sends[place]:
            _forget(sent, end)
        self.leaders.pop(place, None)  # Epochs that nobody published with are not known any more.

    def send_ended(self, sent: Sent, outcome: Outcome, offset: int = UNKNOWN) -> None:
        super().send_ended(sent, outcome, offset)
        for rewind in self._since(sent.place, sent.began):
            _forget(sent, rewind.end)

    def polled(
        self,
        place: Place,
        *,
        began: int,
        asked: int,
        next: int,
        records: Iterable[tuple[int, bytes]],
        high_watermark: int = UNKNOWN,
        log_start: int = UNKNOWN,
    ) -> None:
        super().polled(
            place,
            began=began,
            asked=asked,
            next=next,
            records=records,
            high_watermark=high_watermark,
            log_start=log_start,
        )
        for rewind in self._since(place, began):
            self.polls[place][-1] = _shortened(self.polls[place][-1], rewind.end)

    def end_known(self, place: Place, began: int) -> int:
        """How far the log reached, at least, when something began then."""
        ends = [each.high_watermark for each in self.polls[place] if each.ended < began]
        return max(ends, default=0)

    def _since(self, place: Place, began: int) -> list[Rewind]:
        return [each for each in self.rewinds.get(place, ()) if each.moment > began]


def _shortened(poll: Polled, end: int) -> Polled:
    if max(poll.next, poll.high_watermark) <= end:
        return poll
    return poll._replace(
        asked=min(poll.asked, end),
        next=min(poll.next, end),
        records=tuple(each for each in poll.records if each[0] < end),
        high_watermark=min(poll.high_watermark, end),
    )


def _forget(sent: Sent, end: int) -> None:
    """What was acknowledged is a maybe: its record is gone, or came once more."""
    if sent.outcome is Outcome.OK and (sent.offset >= end or sent.offset < 0):
        sent.outcome, sent.offset = Outcome.MAYBE, UNKNOWN


@dataclass(slots=True)
class ColdLedger(Ledger):
    oracle: Oracle = field(kw_only=True)
    producer_ids: set[int] = field(default_factory=set)
    pace: float = 1.0
    """Of the readers; they are slow while nothing happens for hours."""

    def __post_init__(self) -> None:
        self.history = ColdHistory()
        # Of a store whose answers are wrong time and again; what it holds is not.
        self.never_met -= {ErrorCode.CORRUPT_MESSAGE}

    @property
    def past(self) -> ColdHistory:
        assert isinstance(self.history, ColdHistory)
        return self.history


class NotingProducer(Producer):
    """Complains of an id that somebody else has."""

    ledger: ColdLedger
    noted: Identity | None = None

    async def identity(self, used: Identity) -> Identity:
        found = await super().identity(used)
        if found is not self.noted:
            self.noted = found
            ids = self.ledger.producer_ids
            if found.producer_id in ids:
                self.ledger.complaints.append(f"producer id {found.producer_id} was given twice")
            ids.add(found.producer_id)
        return found


@dataclass(slots=True)
class ColdWriter(Writer):
    def make_producer(self, client: Client) -> Producer:
        return noting_producer(self.ledger, client, self.settings)


def noting_producer(
    ledger: Ledger, client: Client, settings: ProducerSettings | None = None
) -> Producer:
    assert isinstance(ledger, ColdLedger)
    producer = NotingProducer(client, settings or ProducerSettings())
    producer.ledger = ledger
    return producer


@dataclass(slots=True)
class Replayer(Follower):
    """Reads everything in order, and then everything once more."""

    async def run(self, env: Env) -> None:
        ledger = self.ledger
        assert isinstance(ledger, ColdLedger)
        while not ledger.over:
            await self.follow(env, polls_max=10 + env.rng.randrange(30))

    async def _poll(self, env: Env, consumer: Consumer) -> None:
        ledger = self.ledger
        assert isinstance(ledger, ColdLedger)
        await asyncio.sleep((ledger.pace - 1.0) * env.rng.random())
        await Follower._poll(self, env, consumer)


@dataclass(slots=True)
class Seeker(Peeker):
    """Begins anywhere, at the beginning more often than not, and reads on over the seam."""

    async def _look(self, env: Env, client: Client, place: Place, ends: dict[Place, int]) -> None:
        ledger = self.ledger
        assert isinstance(ledger, ColdLedger)
        await asyncio.sleep((ledger.pace - 1.0) * env.rng.random())
        chance, end = env.rng.random(), ends.get(place, 0)
        if chance < 0.04 and end:
            await self._trim(client, place, env.rng.randrange(end + 1))
        elif chance < 0.12:
            await self._ask_epochs(client, place.topic)
        else:
            asked = env.rng.randrange(end + 1) if chance < 0.8 else 0
            ends[place] = await self._read_on(env, client, place, asked)

    async def _trim(self, client: Client, place: Place, offset: int) -> None:
        assert isinstance(self.ledger, ColdLedger)
        where = Where(place.topic_id, place.partition)
        trims = self.ledger.oracle.trims
        trims[where] = max(trims[where], offset)
        await Peeker._trim(self, client, place, offset)

    async def _read_on(self, env: Env, client: Client, place: Place, asked: int) -> int:
        """Tells the high watermark."""
        for _ in range(FETCHES):
            end, asked = await self._fetch(env, client, place, asked)
            if asked >= end:
                break
        return end

    async def _fetch(self, env: Env, client: Client, place: Place, asked: int) -> tuple[int, int]:
        """Tells the high watermark, and where to go on."""
        assert isinstance(self.ledger, ColdLedger)
        ledger, history = self.ledger, self.ledger.past
        began = history.moment()
        fetched = await client.fetch(
            place.topic,
            place.partition,
            asked,
            max_wait_ms=300,
            max_bytes=1 + env.rng.randrange(4000),
        )
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(place, asked, began, fetched.high_watermark)
        if fetched.error:
            raise BrokerError(fetched.error)
        ledger.oracle.require_same(
            Where(place.topic_id, place.partition), memoryview(fetched.batches)
        )
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
        return fetched.high_watermark, next_offset

    def _out_of_range(self, place: Place, asked: int, began: int, end: int) -> tuple[int, int]:
        """P3: an offset between the log start and the end is in range, wherever it lies."""
        ledger = self.ledger
        assert isinstance(ledger, ColdLedger)
        if place in ledger.history.expiring:
            return max(end, 0), max(end, 0)
        trimmed = ledger.history.trims.get(place, 0)
        was_rewound = any(each.moment > began for each in ledger.past.rewinds.get(place, ()))
        if trimmed <= asked <= ledger.past.end_known(place, began) and not was_rewound:
            ledger.complaints.append(f"{place}: offset {asked} was said to be out of range")
        return max(end, 0), max(end, 0)


async def read_to_the_end(client: Client, ledger: ColdLedger, place: Place) -> None:
    """The last reading of a place: in raw batches, so that bytes can be compared."""
    where = Where(place.topic_id, place.partition)
    start, end = [await edge(client, place, which) for which in (EARLIEST, LATEST)]
    records: list[tuple[int, bytes]] = []
    at = start
    while at < end:
        fetched = await client.fetch(place.topic, place.partition, at, max_wait_ms=500)
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            assert place in ledger.history.expiring, f"{place}: {at} is out of range"
            start = await edge(client, place, EARLIEST)
            records, at = [one for one in records if one[0] >= start], max(at, start)
            continue
        if fetched.error:
            await asyncio.sleep(0.5)
            continue
        ledger.oracle.require_same(where, memoryview(fetched.batches))
        found, at = opened(fetched.batches, at)
        records += found
    ledger.history.read_whole(place, log_start=start, end=end, records=records)


async def edge(client: Client, place: Place, which: int) -> int:
    return (await client.list_offsets(place.topic, {place.partition: which}))[
        place.partition
    ].offset
