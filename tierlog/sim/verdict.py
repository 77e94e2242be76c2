"""Whether a log can have shown its clients what they saw: a history in, anomalies out. Pure.

The promises that a place is held to: records that were acknowledged or shown are in the last
reading, at their offset; no offset names two values, no value two offsets; a producer's records
keep its order; a reader is shown everything between where it began and where it ended; the high
watermark never goes back and nothing above it is shown; what was surely refused, or sent elsewhere,
is not there; every life of the leader has a leader epoch of its own.

A *lossy* place (page cache) is held to them between two losses of what was not durable only. The
same goes for a single send whose acknowledgement promised no more (acks=1).
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from tierlog.sim.history import History, Outcome, Place, Polled, Sent

SHORT = 12


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


def anomalies(history: History) -> list[Anomaly]:
    """What is wrong with it, place by place. Places that nobody could read to their end are left
    out."""
    known = {*history.sends, *history.polls, *history.finals, *history.leaders}
    places = sorted(known - history.abandoned)
    return [each for place in places for each in _Judge(history, place).verdict()]


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
