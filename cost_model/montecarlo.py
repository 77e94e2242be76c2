"""Monte Carlo: the bill under everything that the scenario is unsure of, all draws at once.

Draws are numpy arrays in the place of numbers; every formula of the model takes them. One seed
gives one set of draws, on every machine. Two plans are compared draw by draw, under the same luck.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cost_model.arith import is_array
from cost_model.errors import InvalidScenario
from cost_model.fields import Kind
from cost_model.plan import plan
from cost_model.prices import PriceBook
from cost_model.read import bounds_of, get_input, kind_of, show_input, with_input
from cost_model.scenario import Range, Scenario

Array = npt.NDArray[np.float64]
SWING = 0.2
GUESSED = (
    "workload.write",
    "workload.compression",
    "workload.groups",
    "reads.replay",
    "parquet.size_ratio",
)
"""Inputs that are nobody's decision. Sizes and periods of a policy are."""
P90 = 1.2815515655446004
"""Standard deviations from the median to the ninetieth percentile of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Bills of all draws, in US dollars a month."""

    name: str
    usd: Array
    notes: tuple[str, ...] = ()
    """What must be known of the draws."""

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.usd, percent))

    @property
    def mean(self) -> float:
        return float(self.usd.mean())

    def beats(self, other: "Outcome") -> float:
        """The share of draws in which this costs less."""
        return float(np.mean(self.usd < other.usd))


def assumed(scenario: Scenario) -> dict[str, Range]:
    """Ranges of a scenario that names none: what people guess, by a fifth down and up."""
    out = {}
    for path in GUESSED:
        value = get_input(scenario, path)
        low, high = value * (1 - SWING), value * (1 + SWING)
        least, most = bounds_of(path)
        # Half a range would shift the middle of all bills.
        if value and least <= low and high <= most:
            out[path] = Range(low=low, mode=value, high=high)
    return out


def _ranges(*scenarios: Scenario) -> tuple[dict[str, Range], tuple[str, ...]]:
    """What is unsure, the first scenario's word before the second's; and what to say of it."""
    named = {path: row for each in reversed(scenarios) for path, row in each.uncertainty.items()}
    if named:
        return named, ()
    made = assumed(scenarios[0])
    words = (
        f"no ranges are named (uncertainty:), so that {', '.join(made)} vary by {SWING:.0%}; "
        "an example: uncertainty: {workload.write: {low: 20 MB/s, mode: 30 MB/s, high: 60 MB/s}}"
    )
    return made, (words,)


def draw(ranges: Mapping[str, Range], *, count: int, seed: int) -> dict[str, Array]:
    """Values of every unsure input. Inputs are drawn in the order of their names."""
    rng = np.random.default_rng(seed)
    return {path: _draw_one(rng, path, ranges[path], count) for path in sorted(ranges)}


def _draw_one(rng: np.random.Generator, path: str, row: Range, count: int) -> Array:
    if row.low == row.high:
        return np.full(count, row.low)
    if row.shape == "lognormal":
        # Low and high are the tenth and the ninetieth percentile; the mode is not used.
        if row.low <= 0:
            raise InvalidScenario(f"uncertainty.{path}.low", "lognormal needs more than 0")
        middle = (np.log(row.low) + np.log(row.high)) / 2
        values = rng.lognormal(middle, (np.log(row.high) - middle) / P90, count)
        values = np.clip(values, *bounds_of(path))
    else:
        values = rng.triangular(row.low, row.mode, row.high, count)
    whole = not path.startswith("prices.") and kind_of(path) is Kind.COUNT
    return np.rint(values) if whole else np.asarray(values)


def clipped(ranges: Mapping[str, Range], draws: Mapping[str, Array]) -> tuple[str, ...]:
    """A lognormal range has no ends, an input has: sentences about draws that were set to one."""
    out = []
    for path, values in draws.items():
        for end in bounds_of(path):
            share = float(np.mean(values == end))
            if ranges[path].shape == "lognormal" and share and ranges[path].low < ranges[path].high:
                out.append(
                    f"{share:.1%} of the draws of {path} lay beyond {show_input(path, end)}, which "
                    "is as far as it goes, and were set to it"
                )
    return tuple(out)


def simulate(
    scenario: Scenario,
    *,
    draws: Mapping[str, Array],
    book: PriceBook | None = None,
) -> Outcome:
    """The bills of a plan under given draws."""
    unsure = scenario
    for path, values in draws.items():
        unsure = with_input(unsure, path, values)
    usd: Any = plan(unsure, book=book, check=False).usd
    count = len(next(iter(draws.values()))) if draws else 1
    return Outcome(name=scenario.name, usd=usd if is_array(usd) else np.full(count, usd))


def montecarlo(
    scenario: Scenario, *, count: int = 10_000, seed: int = 1, book: PriceBook | None = None
) -> Outcome:
    """The bills of a plan under its own uncertainty."""
    ranges, notes = _ranges(scenario)
    draws = draw(ranges, count=count, seed=seed)
    notes += clipped(ranges, draws)
    return replace(simulate(scenario, draws=draws, book=book), notes=notes)


def duel(
    one: Scenario,
    other: Scenario,
    *,
    count: int = 10_000,
    seed: int = 1,
    book: PriceBook | None = None,
) -> tuple[Outcome, Outcome]:
    """Two plans under the same draws of what either is unsure of."""
    ranges, notes = _ranges(one, other)
    draws = draw(ranges, count=count, seed=seed)
    notes += clipped(ranges, draws)
    return (
        replace(simulate(one, draws=draws, book=book), notes=notes),
        simulate(other, draws=draws, book=book),
    )
