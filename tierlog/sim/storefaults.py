"""What may become of a request to the simulated object store.

A `Fate` says how far the request comes and what its process meets then. Tests name fates for single
calls by a hook, to take crash points one by one; `StoreFaults` draws them for long runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import NamedTuple, TypeAlias

TIME_LIMIT_SECONDS = 10.0
"""When a client gives up waiting for an answer."""


class When(Enum):
    """How far the request comes."""

    BEFORE = auto()
    """It is not sent."""
    AFTER = auto()
    """It takes effect, and its answer is not heard."""
    AMBIGUOUS = auto()
    """It is sent and arrives later: after `late_seconds`."""


class Then(Enum):
    """What its process meets at that moment."""

    ERROR = auto()
    """No answer: a read fails, a write is AMBIGUOUS."""
    DIE = auto()
    FREEZE = auto()
    """It stands still, a zombie to be, until `SimWorld.thaw`. Then a request that was not sent is
    sent, and one that took effect is answered."""


class Fate(NamedTuple):
    when: When
    then: Then = Then.ERROR
    late_seconds: float = 0.0
    silent_seconds: float = 0.0
    """How long the process waits before it hears of an error."""
    is_throttled: bool = False


class StoreCall(NamedTuple):
    """A call of the port by some process."""

    number: int
    """From 0, over all processes."""
    kind: str
    """The name of the port's method."""
    key: str
    host: str


CallHook: TypeAlias = Callable[[StoreCall], Fate | None]
"""Decides on a call before it is sent; None lets it be."""


@dataclass(slots=True, kw_only=True)
class StoreFaults:
    """How many of all requests go wrong, by kind of trouble. They may change at any time."""

    throttled_share: float = 0.0
    """503 SlowDown; nothing happened."""
    lost_share: float = 0.0
    """The connection breaks before the request arrives."""
    unanswered_share: float = 0.0
    """500, or a broken connection, after it took effect."""
    hanging_share: float = 0.0
    """No answer until the time limit; half of them took effect."""
    late_share: float = 0.0
    """No answer, and the request arrives up to `late_seconds_max` later."""
    late_seconds_max: float = 60.0

    # Of reads.
    short_share: float = 0.0
    """The answer breaks off, which every adapter notices."""
    flipped_share: float = 0.0
    """One bit of the answer is wrong, which no adapter notices."""

    # Promises that a store must keep and some do not.
    ignores_conditions: bool = False
    """Conditional writes always win."""
    stale_share: float = 0.0
    """Reads that show an earlier version, where there was one."""

    def draw(self, rng: Random) -> Fate | None:
        point = rng.random()
        for share, fate in (
            (self.throttled_share, Fate(When.BEFORE, is_throttled=True)),
            (self.lost_share, Fate(When.BEFORE)),
            (self.unanswered_share, Fate(When.AFTER)),
            (self.hanging_share / 2, Fate(When.BEFORE, silent_seconds=TIME_LIMIT_SECONDS)),
            (self.hanging_share / 2, Fate(When.AFTER, silent_seconds=TIME_LIMIT_SECONDS)),
            (self.late_share, Fate(When.AMBIGUOUS)),
        ):
            if point < share:
                return self._delay(fate, rng)
            point -= share
        return None

    def _delay(self, fate: Fate, rng: Random) -> Fate:
        if fate.when is not When.AMBIGUOUS:
            return fate
        return fate._replace(late_seconds=self.late_seconds_max * rng.random())
