"""How far behind a group is: records, bytes, seconds, and for how long that goes well. Pure.

What each number means, and how exact it is, docs/lag.md says for people. In short, of a partition:
- `records`: offsets between the next one to be read and the end that consumers see;
- `seconds`: how long the first unread record has been waiting, by its own timestamp, against now;
- `local_left_s`, `retention_left_s`: when that record leaves the disk, and when it is gone for
  good, if the group does not come to it before.
Of a group: the sums, and the worst of the times.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WINDOW_S: Final = 60.0
"""Rates are those of the last minute: consumers commit every five seconds by default."""
WINDOW_S_MIN: Final = 4.0
"""A shorter time says nothing of a rate. That there is none takes a whole window to know."""
STEADY: Final = 0.02
"""Reading and writing that differ by less than this share of the larger count as equal."""


class Trend(Enum):
    CAUGHT_UP = "caught up"
    FALLING = "falling"
    STEADY = "steady"
    GROWING = "growing"
    STUCK = "stuck"
    """There is something to read, and nothing was committed for a minute."""
    UNKNOWN = "unknown"
    """Nobody has looked for long enough."""


class Sample(NamedTuple):
    """Where a group and a partition's end were at some moment."""

    at_s: float
    committed: int
    end: int


class Rates(NamedTuple):
    """Records a second."""

    consumed: float
    produced: float
    over_s: float = WINDOW_S
    """How long was looked at."""


class Left(NamedTuple):
    """How long something takes. `seconds` is None for never, or while nobody knows."""

    seconds: float | None
    is_known: bool = True


NEVER: Final = Left(None)
UNKNOWN: Final = Left(None, is_known=False)


class Fate(NamedTuple):
    """When the records `[base, next_offset)` go, as things stand; wall clock. None: never, or
    nobody knows."""

    base: int
    next_offset: int
    drops_ms: int | None
    """From the disk; 0: they have left it."""
    expires_ms: int | None
    is_open: bool = False
    """They are not sealed or not published yet: when they expire is not decided."""
    is_drop_known: bool = True
    is_expiry_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a group at one partition."""

    topic: str
    partition: int
    committed: int
    log_start: int
    local_start: int
    end: int
    """The high watermark."""
    bytes: int
    first_unread_ms: int | None = None
    """Timestamp of the first unread record; None: not looked up."""
    fate: Fate | None = None
    retention_ms: int = -1
    """-1: records do not expire by their age."""
    retention_bytes: int = -1
    """-1: nor by how many there are."""
    samples: Sequence[Sample] = ()
    """Oldest first, the one of now last."""

    @property
    def next_offset(self) -> int:
        """The first that the group can still read."""
        return max(self.committed, self.log_start)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    topic: str
    partition: int
    committed: int
    log_start: int
    end: int
    records: int
    bytes: int
    seconds: float | None
    """None: not looked up yet, or the store did not say."""
    lost: int
    """Offsets that expired before the group came to them."""
    is_cold: bool
    """Whether the next record comes from the bucket."""
    consumed_per_s: float | None
    produced_per_s: float | None
    watched_s: float
    """How long these rates were looked at; 0: they are not known."""
    trend: Trend
    catch_up_s: float | None
    """None: never at the present rate, or not known; so with the times below."""
    is_catch_up_known: bool
    local_left_s: float | None
    is_local_left_known: bool
    retention_left_s: float | None
    is_retention_left_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    group: str
    records: int
    bytes: int
    seconds: float | None
    """Of those partitions where it is known: at least so much, if others are not."""
    unknown_partitions: int
    """Those with something to read whose seconds are not known."""
    lost: int
    cold_partitions: int
    consumed_per_s: float | None
    produced_per_s: float | None
    trend: Trend
    catch_up_s: float | None
    is_catch_up_known: bool
    local_left_s: float | None
    """The soonest that is known."""
    is_local_left_known: bool
    """Of all its partitions."""
    retention_left_s: float | None
    is_retention_left_known: bool
    partitions: tuple[PartitionLag, ...]


def partition_lag(facts: Facts, *, now_ms: int) -> PartitionLag:
    records = max(facts.end - facts.next_offset, 0)
    rates = rates_of(facts.samples)
    catch_up = catch_up_of(records, rates)
    local, retention = _local_left(facts, records, now_ms), _retention_left(facts, records, now_ms)
    return PartitionLag(
        topic=facts.topic,
        partition=facts.partition,
        committed=facts.committed,
        log_start=facts.log_start,
        end=facts.end,
        records=records,
        bytes=facts.bytes if records else 0,
        seconds=_seconds(facts, records, now_ms),
        lost=max(facts.log_start - facts.committed, 0),
        is_cold=bool(records) and facts.next_offset < facts.local_start,
        consumed_per_s=None if rates is None else rates.consumed,
        produced_per_s=None if rates is None else rates.produced,
        watched_s=0.0 if rates is None else rates.over_s,
        trend=trend_of(records, rates),
        catch_up_s=catch_up.seconds,
        is_catch_up_known=catch_up.is_known,
        local_left_s=local.seconds,
        is_local_left_known=local.is_known,
        retention_left_s=retention.seconds,
        is_retention_left_known=retention.is_known,
    )


def _seconds(facts: Facts, records: int, now_ms: int) -> float | None:
    if not records:
        return 0.0
    if facts.first_unread_ms is None:
        return None
    # A clock that is ahead of ours writes records of the future: they have not waited at all.
    return max(now_ms - facts.first_unread_ms, 0) / 1000


def _local_left(facts: Facts, records: int, now_ms: int) -> Left:
    if not records:
        return NEVER
    if facts.next_offset < facts.local_start:
        return Left(0.0)
    fate = facts.fate
    return UNKNOWN if fate is None else _left(fate.drops_ms, now_ms, is_known=fate.is_drop_known)


def _retention_left(facts: Facts, records: int, now_ms: int) -> Left:
    """Where nobody foresees the end of the segment yet, its records live at least as long as
    `retention.ms` says: a segment goes by its newest one."""
    if not records:
        return NEVER
    fate = facts.fate
    if fate is not None and not fate.is_open:
        return _left(fate.expires_ms, now_ms, is_known=fate.is_expiry_known)
    if facts.retention_ms < 0:
        return NEVER if facts.retention_bytes < 0 else UNKNOWN
    if facts.first_unread_ms is None:
        return UNKNOWN
    return _left(facts.first_unread_ms + facts.retention_ms, now_ms)


def _left(at_ms: int | None, now_ms: int, *, is_known: bool = True) -> Left:
    return Left(None if at_ms is None else max(at_ms - now_ms, 0) / 1000, is_known)


# Rates


def rates_of(samples: Sequence[Sample]) -> Rates | None:
    """Over the last minute, or what is known of it; over more where looks are rare."""
    if not samples:
        return None
    first, last = samples[_window(samples)], samples[-1]
    seconds = last.at_s - first.at_s
    if seconds < WINDOW_S_MIN:
        return None
    consumed = (last.committed - first.committed) / seconds
    return Rates(max(consumed, 0.0), max((last.end - first.end) / seconds, 0.0), seconds)


def _window(samples: Sequence[Sample]) -> int:
    """Where the last minute begins: at the newest sample that is as old, or else the oldest."""
    last = samples[-1]
    old = sum(last.at_s - one.at_s >= WINDOW_S for one in samples)
    return max(old - 1, 0)


def trend_of(records: int, rates: Rates | None) -> Trend:
    if not records:
        return Trend.CAUGHT_UP
    if rates is None:
        return Trend.UNKNOWN
    if not rates.consumed:
        return Trend.STUCK if rates.over_s >= WINDOW_S else Trend.UNKNOWN
    difference = rates.consumed - rates.produced
    if abs(difference) <= STEADY * max(rates.consumed, rates.produced):
        return Trend.STEADY
    return Trend.FALLING if difference > 0 else Trend.GROWING


def catch_up_of(records: int, rates: Rates | None) -> Left:
    trend = trend_of(records, rates)
    if trend is Trend.CAUGHT_UP:
        return Left(0.0)
    if rates is None or trend is Trend.UNKNOWN:
        return UNKNOWN
    if trend is not Trend.FALLING:
        return NEVER
    return Left(records / (rates.consumed - rates.produced))


def kept(samples: Sequence[Sample], new: Sample, *, spacing_s: float = 5.0) -> list[Sample]:
    """What to remember: a sample every few seconds, for a minute, and the one before that minute;
    `new` stands last. A group that went back, or a partition that did, begins anew."""
    if samples and (new.committed < samples[-1].committed or new.end < samples[-1].end):
        return [new]
    recent = list(samples[_window([*samples, new]) :])
    if len(recent) >= 2 and recent[-1].at_s - recent[-2].at_s < spacing_s:
        recent.pop()  # It was only the last one; the one before it stays.
    return [*recent, new]


# Groups


def group_lag(group: str, partitions: Iterable[PartitionLag]) -> GroupLag:
    rows = tuple(sorted(partitions, key=lambda one: (one.topic, one.partition)))
    behind = [one for one in rows if one.records]
    rates = _summed(rows)
    records = sum(one.records for one in rows)
    catch_up = _slowest([Left(one.catch_up_s, one.is_catch_up_known) for one in behind])
    return GroupLag(
        group=group,
        records=records,
        bytes=sum(one.bytes for one in rows),
        seconds=_worst_known([one.seconds for one in behind]),
        unknown_partitions=sum(one.seconds is None for one in behind),
        lost=sum(one.lost for one in rows),
        cold_partitions=sum(one.is_cold for one in rows),
        consumed_per_s=None if rates is None else rates.consumed,
        produced_per_s=None if rates is None else rates.produced,
        trend=trend_of(records, rates),
        catch_up_s=catch_up.seconds,
        is_catch_up_known=catch_up.is_known,
        local_left_s=_soonest(one.local_left_s for one in behind),
        is_local_left_known=all(one.is_local_left_known for one in behind),
        retention_left_s=_soonest(one.retention_left_s for one in behind),
        is_retention_left_known=all(one.is_retention_left_known for one in behind),
        partitions=rows,
    )


def _summed(rows: Sequence[PartitionLag]) -> Rates | None:
    known = [one for one in rows if one.consumed_per_s is not None]
    if not known:
        return None
    return Rates(
        sum(one.consumed_per_s or 0.0 for one in known),
        sum(one.produced_per_s or 0.0 for one in known),
        min(one.watched_s for one in known),
    )


def _worst_known(seconds: Sequence[float | None]) -> float | None:
    """Of those that are known; of a group that is nowhere behind, none."""
    if not seconds:
        return 0.0
    return max((one for one in seconds if one is not None), default=None)


def _slowest(times: Sequence[Left]) -> Left:
    """A group has caught up when its last partition has: never, if one of them never has."""
    if NEVER in times:
        return NEVER
    if UNKNOWN in times:
        return UNKNOWN
    return Left(max((one.seconds or 0.0 for one in times), default=0.0))


def _soonest(seconds: Iterable[float | None]) -> float | None:
    return min((one for one in seconds if one is not None), default=None)


def worst_first(groups: Iterable[GroupLag]) -> list[GroupLag]:
    """Those that lose records next come first, then those that are furthest behind."""
    return sorted(
        groups,
        key=lambda one: (
            float("inf") if one.retention_left_s is None else one.retention_left_s,
            -(one.seconds or 0.0),
            -one.records,
            one.group,
        ),
    )
