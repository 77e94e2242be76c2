"""What the clients of a log saw: events in, for `tierlog.sim.verdict` to judge.

    history = History()
    sent = history.send_began(place, producer="w", value=b"v")
    history.send_ended(sent, Outcome.OK, offset=7)
    history.read_whole(place, log_start=0, end=8, records=[(7, b"v")])
    assert not anomalies(history)

A *place* is one partition of one topic id. Every operation takes two moments of one logical clock,
so "before" means: ended before the other began. A send without a known end is a maybe, never a no.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

UNKNOWN = -1
NEVER = 1 << 62


class Place(NamedTuple):
    """A partition of a topic. Topics of one name are told apart by their id."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} ({self.topic_id[:8]})"


class Outcome(Enum):
    """How a send ended."""

    OK = "acknowledged"
    FAILED = "surely not written"
    MAYBE = "nobody knows"


@dataclass(slots=True, eq=False, kw_only=True)
class Sent:
    """A record that somebody tried to write."""

    place: Place
    producer: str
    number: int
    """Its turn among the sends of its producer."""
    value: bytes
    idempotent: bool
    durable: bool
    """An acknowledgement promises that the record outlives a loss of the page cache."""
    began: int
    ended: int = NEVER
    outcome: Outcome = Outcome.MAYBE
    offset: int = UNKNOWN


class Polled(NamedTuple):
    """What a reader was shown from `asked` on; it goes on at `next`."""

    place: Place
    asked: int
    next: int
    records: tuple[tuple[int, bytes], ...]
    began: int
    ended: int
    high_watermark: int = UNKNOWN
    log_start: int = UNKNOWN


class Led(NamedTuple):
    """Under which leader epoch a life of the leader served."""

    place: Place
    leader_epoch: int
    life: int


@dataclass(slots=True)
class History:
    """Collects what happens."""

    lossy: set[Place] = field(default_factory=set)
    """Only the page cache is promised here."""
    expiring: set[Place] = field(default_factory=set)
    """Retention may move the log start."""
    abandoned: set[Place] = field(default_factory=set)
    """Nobody could read these to their end: the topic is gone."""
    sends: dict[Place, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    polls: dict[Place, list[Polled]] = field(default_factory=lambda: defaultdict(list))
    trims: dict[Place, int] = field(default_factory=dict)
    """The highest log start that anybody asked for."""
    finals: dict[Place, Polled] = field(default_factory=dict)
    leaders: dict[Place, set[Led]] = field(default_factory=lambda: defaultdict(set))
    losses: list[int] = field(default_factory=list)
    _moment: int = 0
    _sent_count: int = 0

    def moment(self) -> int:
        """The next moment of the logical clock."""
        self._moment += 1
        return self._moment

    # What happens

    def send_began(
        self,
        place: Place,
        *,
        producer: str,
        value: bytes,
        idempotent: bool = True,
        durable: bool = True,
    ) -> Sent:
        self._sent_count += 1
        sent = Sent(
            place=place,
            producer=producer,
            number=self._sent_count,
            value=value,
            idempotent=idempotent,
            durable=durable,
            began=self.moment(),
        )
        self.sends[place].append(sent)
        return sent

    def send_ended(self, sent: Sent, outcome: Outcome, offset: int = UNKNOWN) -> None:
        sent.outcome, sent.offset, sent.ended = outcome, offset, self.moment()

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
        self.polls[place].append(
            Polled(
                place, asked, next, tuple(records), began, self.moment(), high_watermark, log_start
            )
        )

    def trim_began(self, place: Place, offset: int) -> None:
        self.trims[place] = max(offset, self.trims.get(place, 0))

    def led(self, place: Place, *, leader_epoch: int, life: int) -> None:
        self.leaders[place].add(Led(place, leader_epoch, life))

    def lost(self) -> None:
        """What was not durable may be gone from here on."""
        self.losses.append(self.moment())

    def read_whole(
        self, place: Place, *, log_start: int, end: int, records: Sequence[tuple[int, bytes]]
    ) -> None:
        """The last reading of a place, from its log start to its end."""
        moment = self.moment()
        self.finals[place] = Polled(
            place, log_start, end, tuple(records), moment, moment, end, log_start
        )

    def acknowledged(self) -> int:
        return sum(sent.outcome is Outcome.OK for sends in self.sends.values() for sent in sends)
