"""What clients of a log saw, and whether a log can have shown it to them.

    history = History()
    sending = history.send_began(place, producer="w", value=b"v")
    history.send_ended(sending, Outcome.OK, offset=7)
    ...
    history.read_whole(place, log_start=0, records=[(7, b"v")])
    assert not history.anomalies()

A *place* is one partition of one topic id. Every operation takes two moments of one logical clock,
so "before" means: ended before the other began. A send without a known end is a maybe, never a no.

The promises a place is held to: records that were acknowledged or shown are in the last reading, at
their offset; no offset names two values, no value two offsets; a producer's records keep its order;
a reader is shown everything between where it began and where it ended; the high watermark never
goes back and nothing above it is shown; what was surely refused, or sent elsewhere, is not there.
A *lossy* place (page cache) is held to them between two losses of what was not durable only. The
same goes for a single send whose acknowledgement promised no more (acks=1).
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

UNKNOWN = -1
NEVER = 1 << 62
SHORT = 12


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


class Kind(Enum):
    """What can be wrong with a history."""

    INCONSISTENT_OFFSETS = "two values at one offset"
    DUPLICATE = "one value at two offsets"
    LOST_WRITE = "acknowledged and gone"
    LOST_READ = "shown and gone"
    ALIEN = "shown, and nobody sent it there"
    FAILED_WRITE_FOUND = "refused and yet there"
    NONMONOTONIC_SEND = "the order of a producer is broken"
    NONMONOTONIC_POLL = "a poll out of order"
    POLL_SKIP = "a poll left a record out"
    WATERMARK_WENT_BACK = "the high watermark went back"
    ABOVE_WATERMARK = "shown above the high watermark"
    TRIMMED_UNASKED = "the log start moved on its own"
    SHARED_LEADER_EPOCH = "two lives of a leader under one leader epoch"
    NEVER_READ = "no last reading"


class Anomaly(NamedTuple):
    kind: Kind
    place: Place
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.kind.value}: {self.sentence}"


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
    """Collects what happens; `anomalies` judges it."""

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

    # The verdict

    def acknowledged(self) -> int:
        return sum(sent.outcome is Outcome.OK for sends in self.sends.values() for sent in sends)

    def anomalies(self) -> list[Anomaly]:
        places = sorted({*self.sends, *self.polls, *self.finals, *self.leaders} - self.abandoned)
        return [each for place in places for each in _Judge(self, place).verdict()]


def short(value: bytes) -> str:
    """Enough of a value to tell it by."""
    return repr(value if len(value) <= SHORT else value[:SHORT] + b"...")


class _Judge:
    """Holds one place to its promises."""

    def __init__(self, history: History, place: Place) -> None:
        self._place = place
        self._sends = history.sends.get(place, [])
        self._polls = history.polls.get(place, [])
        self._final = history.finals.get(place)
        self._trimmed_to = None if place in history.expiring else history.trims.get(place, 0)
        self._led = sorted(history.leaders.get(place, ()), key=lambda led: (led.life, led[1]))
        self._losses = history.losses
        self._lossy = place in history.lossy
        self._sent = {sent.value: sent for sent in self._sends}
        self._readings = self._polls if self._final is None else [*self._polls, self._final]
        self._known: dict[int, dict[int, bytes]] = defaultdict(dict)
        """By era: what is known to lie at an offset."""

    def verdict(self) -> Iterator[Anomaly]:
        yield from self._learn()
        yield from self._duplicates()
        yield from self._origins()
        yield from self._orders()
        for reading in self._readings:
            yield from self._reading(reading)
        yield from self._watermarks()
        yield from self._losses_of_records()
        yield from self._epochs()

    def _found(self, kind: Kind, sentence: str) -> Anomaly:
        return Anomaly(kind, self._place, sentence)

    # Eras: the time between two losses, where those matter

    def _era(self, began: int, ended: int) -> int | None:
        """None for what a loss fell into: nobody knows on which side of it the broker acted."""
        if not self._lossy:
            return 0
        era = bisect(self._losses, began)
        return era if era == bisect(self._losses, ended) else None

    def _stands(self, sent: Sent) -> bool:
        """Acknowledged, and nothing happened since that the acknowledgement does not cover."""
        if sent.outcome is not Outcome.OK:
            return False
        covered = sent.durable and not self._lossy
        return covered or not self._losses or sent.began > self._losses[-1]

    # What lies where

    def _learn(self) -> Iterator[Anomaly]:
        for era, offset, value in self._observed():
            before = self._known[era].setdefault(offset, value)
            if before != value:
                yield self._found(
                    Kind.INCONSISTENT_OFFSETS,
                    f"offset {offset} is {short(before)} and {short(value)}",
                )

    def _observed(self) -> Iterator[tuple[int, int, bytes]]:
        for reading in self._readings:
            if (era := self._era(reading.began, reading.ended)) is not None:
                for offset, value in reading.records:
                    yield era, offset, value
        for sent in self._sends:
            era = self._era(sent.began, sent.ended)
            if era is not None and self._stands(sent) and sent.offset >= 0:
                yield era, sent.offset, sent.value

    def _duplicates(self) -> Iterator[Anomaly]:
        for known in self._known.values():
            first: dict[bytes, int] = {}
            for offset, value in sorted(known.items()):
                if first.setdefault(value, offset) != offset:
                    yield self._found(
                        Kind.DUPLICATE, f"{short(value)} at offsets {first[value]} and {offset}"
                    )

    def _origins(self) -> Iterator[Anomaly]:
        shown = {value: offset for reading in self._readings for offset, value in reading.records}
        for value, offset in shown.items():
            sent = self._sent.get(value)
            if sent is None:
                yield self._found(Kind.ALIEN, f"{short(value)} at offset {offset}")
            elif sent.outcome is Outcome.FAILED:
                yield self._found(Kind.FAILED_WRITE_FOUND, f"{short(value)} at offset {offset}")

    def _orders(self) -> Iterator[Anomaly]:
        for known in self._known.values():
            last: dict[str, Sent] = {}
            for offset, value in sorted(known.items()):
                sent = self._sent.get(value)
                # Without sequence numbers a doubtful record may arrive late, behind its followers.
                if sent is None or not (sent.idempotent or sent.outcome is Outcome.OK):
                    continue
                before = last.setdefault(sent.producer, sent)
                last[sent.producer] = sent
                if before.number > sent.number:
                    yield self._found(
                        Kind.NONMONOTONIC_SEND,
                        f"{short(value)} at {offset} follows {short(before.value)}",
                    )

    # What one reading shows

    def _reading(self, reading: Polled) -> Iterator[Anomaly]:
        offsets = [offset for offset, _ in reading.records]
        borders = [reading.asked - 1, *offsets, reading.next]
        if any(one >= other for one, other in pairwise(borders)):
            yield self._found(
                Kind.NONMONOTONIC_POLL, f"from {reading.asked} to {reading.next}: {offsets}"
            )
        yield from self._skips(reading, set(offsets))
        if reading.high_watermark >= 0 and offsets and offsets[-1] >= reading.high_watermark:
            yield self._found(
                Kind.ABOVE_WATERMARK, f"offset {offsets[-1]} at {reading.high_watermark}"
            )
        if self._trimmed_to is not None and reading.log_start > self._trimmed_to:
            yield self._found(
                Kind.TRIMMED_UNASKED, f"to {reading.log_start}; {self._trimmed_to} was asked for"
            )

    def _skips(self, reading: Polled, offsets: set[int]) -> Iterator[Anomaly]:
        era = self._era(reading.began, reading.ended)
        if era is None or reading is self._final:
            return  # What the last reading lacks is lost, not left out.
        skipped = [
            offset
            for offset in self._known[era]
            if reading.asked <= offset < reading.next and offset not in offsets
        ]
        if skipped:
            yield self._found(
                Kind.POLL_SKIP, f"{sorted(skipped)} between {reading.asked} and {reading.next}"
            )

    def _watermarks(self) -> Iterator[Anomaly]:
        """Against the highest end that anybody had seen when a reading began."""
        ends: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for moment, era, end in sorted(self._ends()):
            highest = max(end, ends[era][-1][1]) if ends[era] else end
            ends[era].append((moment, highest))
        for reading in self._readings:
            at = self._era(reading.began, reading.ended)
            if at is None or reading.high_watermark < 0:
                continue
            place = bisect(ends[at], (reading.began, -1))
            if place and (seen := ends[at][place - 1][1]) > reading.high_watermark:
                yield self._found(
                    Kind.WATERMARK_WENT_BACK, f"from {seen} to {reading.high_watermark}"
                )

    def _ends(self) -> Iterator[tuple[int, int, int]]:
        for reading in self._readings:
            if (era := self._era(reading.began, reading.ended)) is not None:
                shown = reading.records[-1][0] + 1 if reading.records else 0
                yield reading.ended, era, max(reading.high_watermark, shown)
        for sent in self._sends:
            era = self._era(sent.began, sent.ended)
            # acks=1 is answered before the record can be seen.
            if era is not None and self._stands(sent) and (sent.durable or self._lossy):
                yield sent.ended, era, sent.offset + 1

    # What must be there at the end

    def _losses_of_records(self) -> Iterator[Anomaly]:
        if self._final is None:
            if any(self._stands(sent) for sent in self._sends):
                yield self._found(Kind.NEVER_READ, "and something was acknowledged")
            return
        there = dict(self._final.records)
        values = set(there.values())
        start = self._final.log_start
        for sent in self._sends:
            if not self._stands(sent) or sent.value in values:
                continue
            if sent.offset >= start or (sent.offset < 0 and start == 0):
                yield self._found(Kind.LOST_WRITE, f"{short(sent.value)} at offset {sent.offset}")
        for offset, value in self._shown():
            if offset >= start and there.get(offset) != value:
                yield self._found(Kind.LOST_READ, f"{short(value)} at offset {offset}")

    def _shown(self) -> list[tuple[int, bytes]]:
        """Shown and still promised; each once."""
        last_loss = self._losses[-1] if self._lossy and self._losses else 0
        shown = {
            record
            for reading in self._polls
            if reading.began > last_loss
            for record in reading.records
        }
        return sorted(shown)

    def _epochs(self) -> Iterator[Anomaly]:
        for one, other in pairwise(self._led):
            if one.life != other.life and one.leader_epoch >= other.leader_epoch:
                yield self._found(
                    Kind.SHARED_LEADER_EPOCH,
                    f"{one.leader_epoch} in life {one.life}, "
                    f"{other.leader_epoch} in life {other.life}",
                )
