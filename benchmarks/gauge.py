"""Measures whole servers: every round gives several figures of each variant.

A load on a server says more than one speed: bytes a second, CPU per byte, the latency of whoever
asks beside it. A `Gauge` names the figures and what is promised of each; its variants (servers)
take turns within every round, in an order that rotates. With a baseline a figure is judged by the
median of its per-round ratios to the baseline, without one by its own median.

A figure that cannot be had in some round (a rejected request, a lost connection) is no figure:
variants raise, and the whole gauge fails.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from benchmarks.harness import Comparison, Row, Size, Spread, Verdict, run

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What is promised of one figure: `hold` must be met, `aim` is wished for; None only reports.

    Speeds are promised from below, the rest (seconds, bytes, CPU) from above.
    """

    hold: float | None = None
    aim: float | None = None
    is_speed: bool = False

    def verdict(self, value: float) -> Verdict:
        if self.hold is None and self.aim is None:
            return Verdict.REPORT
        if self.hold is not None and not self._met(value, self.hold):
            return Verdict.MISSED
        if self.aim is not None and self._met(value, self.aim):
            return Verdict.AIM
        return Verdict.REPORT if self.hold is None else Verdict.HELD

    def _met(self, value: float, bound: float) -> bool:
        # A value that is not a number meets nothing.
        return value >= bound if self.is_speed else value <= bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """What to measure of whom. Every variant returns all the figures promised here.

    `rounds` is for what takes long or does not vary; otherwise the size says how many.
    """

    name: str
    variants: Mapping[str, Callable[[], Figures]]
    promises: Mapping[str, Promise]
    baseline: str | None = None
    rounds: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.baseline is not None and self.baseline not in self.variants:
            raise ValueError(f"{self.name}: no variant is called {self.baseline!r}, the baseline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One figure of one variant."""

    gauge: str
    figure: str
    variant: str
    value: Spread
    ratio: Spread | None
    """To the baseline in the same round; None without a baseline."""
    hold: float | None
    aim: float | None
    verdict: Verdict
    rounds: int
    note: str = ""

    def missed_sentence(self) -> str:
        judged = self.value if self.ratio is None else self.ratio
        return (
            f"{self.gauge} / {self.figure} / {self.variant}: "
            f"{judged.median:.2f}, hold {self.hold or 0:g}"
        )


def measure(gauge: Gauge, size: Size) -> list[Reading]:
    """Measure one gauge, round by round."""
    seen: dict[str, list[Figures]] = {name: [] for name in gauge.variants}
    names = list(gauge.variants)
    # Below the sizes whose figures mean something, once is enough to see that it runs.
    rounds = min(gauge.rounds or size.rounds, size.rounds) if size.is_full else 1
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            seen[name].append(gauge.variants[name]())
    return [
        _reading(gauge, figure, promise, name, seen)
        for figure, promise in gauge.promises.items()
        for name in names
    ]


def _reading(
    gauge: Gauge, figure: str, promise: Promise, name: str, seen: Mapping[str, list[Figures]]
) -> Reading:
    values = [figures[figure] for figures in seen[name]]
    value, ratio, verdict = Spread.of(values), None, Verdict.BASELINE
    if gauge.baseline is not None:
        base = [figures[figure] for figures in seen[gauge.baseline]]
        ratio = Spread.of([_ratio(ours, theirs) for ours, theirs in zip(values, base, strict=True)])
    if name != gauge.baseline:
        verdict = promise.verdict((value if ratio is None else ratio).median)
    return Reading(
        gauge=gauge.name,
        figure=figure,
        variant=name,
        value=value,
        ratio=ratio,
        hold=promise.hold,
        aim=promise.aim,
        verdict=verdict,
        rounds=len(values),
        note=gauge.note,
    )


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else math.nan


def run_all(
    wanted: Iterable[Comparison | Gauge],
    size: Size,
    *,
    tell: Callable[[str], object] = lambda name: None,
) -> tuple[list[Row], list[Reading]]:
    """Measure what a bench module names, one after another; `tell` hears what is done.

    A module may be a generator that holds its servers: it is closed whatever happens, and with it
    they are.
    """
    rows: list[Row] = []
    readings: list[Reading] = []
    iterator = iter(wanted)
    try:
        for each in iterator:
            if isinstance(each, Gauge):
                readings += measure(each, size)
            else:
                rows += run(each, size)
            tell(each.name)
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
    return rows, readings
