"""Rounds over everything that a node has in the bucket, each spread evenly over its time.

A round goes from partition to partition and, inside, from segment to segment, in the order of their
names. It owes work as time passes: half of it after half of its time. So nothing comes in bursts,
and no two nodes work in step. Whoever was away does not make up for it in a hurry: the round then
takes longer.

Pure. Where a round stands is a value of a few numbers, kept in a file, so that a restart goes on.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from math import inf
from typing import NamedTuple

CATCH_UP_SHARE = 0.02
"""Of its time, that a round may be behind and make up for."""


class At(NamedTuple):
    """The next thing to look at: a partition, and an offset in it."""

    topic_id: str = ""
    partition: int = -1
    offset: int = 0

    @property
    def place(self) -> tuple[str, int]:
        return self.topic_id, self.partition


@dataclass(slots=True)
class Round:
    begun_ms: int = -1
    """Wall clock; -1: never."""
    done: float = 0
    """Units of this round: partitions, segments or bytes."""
    topic_id: str = ""
    partition: int = -1
    offset: int = 0
    finished: int = 0
    """Rounds so far."""

    @property
    def at(self) -> At:
        return At(self.topic_id, self.partition, self.offset)

    def due_ms(self, now_ms: int, *, total: float, period_ms: int, unit: float = 1) -> float:
        """When the next `unit` of work is due, of `total` in a round. Infinity: there is none."""
        if total <= 0:
            return inf
        if self.begun_ms < 0 or now_ms < self.begun_ms:
            self.begun_ms = now_ms - int(period_ms * self.done / total)
        due = self.begun_ms + period_ms * (self.done + unit / 2) / total
        behind = now_ms - due
        if behind > period_ms * CATCH_UP_SHARE:
            self.begun_ms += int(behind)
            due = now_ms
        return due

    def choose(self, places: Iterable[tuple[str, int]]) -> At | None:
        """Where to go on, among the partitions that are there now. None: at the end."""
        here = self.at
        following = min((one for one in places if one >= here.place), default=None)
        if following is None:
            return None
        return here if following == here.place else At(*following)

    def move(self, at: At, *, units: float) -> None:
        """On to `at`, after so much work."""
        self.topic_id, self.partition, self.offset = at
        self.done += units

    def pass_by(self, at: At, *, units: float) -> None:
        """The partition is done: on to the next, whichever that is."""
        self.move(At(at.topic_id, at.partition + 1, 0), units=units)

    def finish(self, now_ms: int) -> None:
        """Begin anew."""
        self.begun_ms, self.done, self.finished = now_ms, 0, self.finished + 1
        self.topic_id, self.partition, self.offset = At()


def to_value(one: Round) -> dict[str, object]:
    return asdict(one)


def from_value(value: object) -> Round:
    """A new one where the value makes no sense: then it begins anew."""
    known = {field.name: field.type for field in fields(Round)}
    if not isinstance(value, dict) or set(value) != set(known):
        return Round()
    is_sound = all(
        isinstance(given, str if name == "topic_id" else int | float)
        for name, given in value.items()
    )
    return Round(**value) if is_sound else Round()
