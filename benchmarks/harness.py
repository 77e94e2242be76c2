"""Measures variants of the same work against a baseline, round by round.

A speed measured alone says more about the hour than about the code. So every round measures every
variant once, in an order that rotates, and yields one ratio per variant: speed of the variant over
speed of the baseline in the same round. The result is the median of those ratios with the smallest
and the largest. Wall and CPU time are both kept; holds are judged by wall time.

A variant is a plain callable that does the work once. It is repeated within a measurement until the
measurement lasts `Size.measure_s`, so that clock and loop do not count. A variant that times itself
(a load generator in another process) returns a `Sample` and is called once per round.

Always holds: garbage collection is off inside a measurement and as it was before, outside.
"""

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import repeat
from pathlib import Path

MEASURE_SECONDS_MIN = 0.02
"""Shorter measurements are noise on a shared core: one scheduler slice is 3-4 ms."""

ROUNDS_MIN = 7
"""With seven rounds the median stands even if three of them are spoilt."""

REPETITIONS_MAX = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much to do. Bench modules scale their data by `data_bytes` and write below `scratch`.

    `options` are wishes for single modules, by name; who reads one says so in its docstring.
    """

    name: str
    data_bytes: int
    rounds: int
    measure_s: float
    scratch: Path
    options: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether the figures mean anything; the smaller sizes only show that the code runs."""
        return self.rounds >= ROUNDS_MIN and self.measure_s >= MEASURE_SECONDS_MIN


def full(scratch: Path) -> Size:
    return Size(name="full", data_bytes=64 << 20, rounds=11, measure_s=0.05, scratch=scratch)


def quick(scratch: Path) -> Size:
    return Size(name="quick", data_bytes=4 << 20, rounds=7, measure_s=0.02, scratch=scratch)


def smoke(scratch: Path) -> Size:
    """As small as it gets: two rounds, one repetition. For tests, never for figures."""
    return Size(name="smoke", data_bytes=256 << 10, rounds=2, measure_s=0.0, scratch=scratch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement: `units` of work took so long. CPU is NaN where nobody could count it."""

    units: float
    wall_s: float
    cpu_s: float = math.nan


class Unavailable(Exception):
    """A bench module cannot run here; the sentence says what is missing."""


Variant = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What to measure, against what, and which ratio we promise to hold.

    `units` is the work in one call of a variant (bytes, records), the same for all of them.
    `prepare` runs untimed before each measurement, `close` once at the end.
    With `self_timed` each variant returns a `Sample` of its own.
    """

    name: str
    variants: Mapping[str, Variant]
    baseline: str
    hold: float | None = None
    aim: float | None = None
    units: float = 1.0
    unit: str = "calls"
    note: str = ""
    self_timed: bool = False
    repetitions_max: int = REPETITIONS_MAX
    prepare: Callable[[], object] | None = None
    close: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        if self.baseline not in self.variants:
            raise ValueError(f"{self.name}: no variant is called {self.baseline!r}, the baseline")
        if len(self.variants) < 2:
            raise ValueError(f"{self.name}: a comparison needs a variant beside its baseline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        known = [value for value in values if not math.isnan(value)]
        if not known:
            return cls(median=math.nan, low=math.nan, high=math.nan)
        return cls(median=statistics.median(known), low=min(known), high=max(known))


class Verdict(Enum):
    BASELINE = "baseline"
    REPORT = "report"
    AIM = "aim met"
    HELD = "held"
    MISSED = "MISSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One variant of one comparison. Ratios above 1 mean faster than the baseline."""

    comparison: str
    variant: str
    ratio: Spread
    cpu_ratio: Spread
    units_per_s: Spread
    unit: str
    hold: float | None
    aim: float | None
    verdict: Verdict
    rounds: int
    repetitions: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Timer:
    """The two clocks; tests bring their own."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time


@dataclass(slots=True)
class _Track:
    """What one variant did so far."""

    run: Variant
    repetitions: int = 1
    samples: list[Sample] = field(default_factory=list)


def run(comparison: Comparison, size: Size, *, timer: Timer | None = None) -> list[Row]:
    """Measure one comparison; its `close` runs whatever happens."""
    try:
        tracks = _measure_rounds(comparison, size, timer or Timer())
    finally:
        if comparison.close:
            comparison.close()
    return _rows(comparison, tracks)


def _measure_rounds(comparison: Comparison, size: Size, timer: Timer) -> dict[str, _Track]:
    tracks = {name: _Track(run=fn) for name, fn in comparison.variants.items()}
    for track in tracks.values():
        _calibrate(track, comparison, size, timer)
    names = list(tracks)
    for number in range(size.rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            track = tracks[name]
            track.samples.append(_measure(track, comparison, timer))
    return tracks


def _calibrate(track: _Track, comparison: Comparison, size: Size, timer: Timer) -> None:
    """Find the repetitions that fill a measurement. Also warms caches and code up."""
    if comparison.self_timed:
        return
    while True:
        took = _measure(track, comparison, timer).wall_s
        if took >= size.measure_s or track.repetitions >= comparison.repetitions_max:
            return
        # A little more than needed, and never over 10x at once: the first call is often a slow one.
        wanted = track.repetitions * min(10.0, 1.2 * size.measure_s / max(took, 1e-9))
        track.repetitions = min(math.ceil(wanted) + 1, comparison.repetitions_max)


def _measure(track: _Track, comparison: Comparison, timer: Timer) -> Sample:
    if comparison.prepare:
        comparison.prepare()
    if comparison.self_timed:
        return _own_sample(track.run)
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        wall_s, cpu_s = _time(track.run, track.repetitions, timer)
    finally:
        if enabled:
            gc.enable()
    return Sample(units=comparison.units * track.repetitions, wall_s=wall_s, cpu_s=cpu_s)


def _time(fn: Variant, repetitions: int, timer: Timer) -> tuple[float, float]:
    cpu_start, wall_start = timer.cpu(), timer.wall()
    for _ in repeat(None, repetitions):
        fn()
    wall_s, cpu_s = timer.wall() - wall_start, timer.cpu() - cpu_start
    return wall_s, cpu_s


def _own_sample(fn: Variant) -> Sample:
    sample = fn()
    if not isinstance(sample, Sample):
        raise TypeError(f"a self-timed variant returns a Sample, not {sample!r}")
    return sample


def _rows(comparison: Comparison, tracks: Mapping[str, _Track]) -> list[Row]:
    base = tracks[comparison.baseline].samples
    return [_row(comparison, name, track, base) for name, track in tracks.items()]


def _row(comparison: Comparison, name: str, track: _Track, base: Sequence[Sample]) -> Row:
    pairs = list(zip(track.samples, base, strict=True))
    ratio = Spread.of([_speed(ours) / _speed(theirs) for ours, theirs in pairs])
    return Row(
        comparison=comparison.name,
        variant=name,
        ratio=ratio,
        cpu_ratio=Spread.of([_thrift(ours) / _thrift(theirs) for ours, theirs in pairs]),
        units_per_s=Spread.of([_speed(sample) for sample in track.samples]),
        unit=comparison.unit,
        hold=comparison.hold,
        aim=comparison.aim,
        verdict=_verdict(comparison, name, ratio.median),
        rounds=len(base),
        repetitions=track.repetitions,
        note=comparison.note,
    )


def _speed(sample: Sample) -> float:
    return sample.units / max(sample.wall_s, 1e-9)


def _thrift(sample: Sample) -> float:
    """Units per CPU second."""
    return sample.units / max(sample.cpu_s, 1e-9)


def _verdict(comparison: Comparison, name: str, ratio: float) -> Verdict:
    if name == comparison.baseline:
        return Verdict.BASELINE
    if comparison.hold is None:
        return Verdict.REPORT
    # Written so that a ratio that is not a number counts as missed.
    if not ratio >= comparison.hold:
        return Verdict.MISSED
    return Verdict.AIM if comparison.aim is not None and ratio >= comparison.aim else Verdict.HELD
