"""Monte Carlo: the bill under everything that the scenario is unsure of, all draws at once.

Draws are numpy arrays in the place of numbers; every formula of the model takes them. One seed
gives one set of draws, on every machine. Two plans are compared draw by draw, under the same luck.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cost_model.arith import is_array
from cost_model.errors import InvalidScenario
from cost_model.fields import Kind
from cost_model.plan import plan
from cost_model.prices import PriceBook
from cost_model.read import kind_of, with_input
from cost_model.scenario import Range, Scenario

Array = npt.NDArray[np.float64]
P90 = 1.2815515655446004
"""Standard deviations from the median to the ninetieth percentile of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Bills of all draws, in US dollars a month."""

    name: str
    usd: Array

    def percentile(self, percent: float) -> float:
        return float(np.percentile(self.usd, percent))

    @property
    def mean(self) -> float:
        return float(self.usd.mean())

    def beats(self, other: "Outcome") -> float:
        """The share of draws in which this costs less."""
        return float(np.mean(self.usd < other.usd))


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
    else:
        values = rng.triangular(row.low, row.mode, row.high, count)
    whole = not path.startswith("prices.") and kind_of(path) is Kind.COUNT
    return np.rint(values) if whole else np.asarray(values)


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
    if not scenario.uncertainty:
        raise InvalidScenario("uncertainty", "names no input, so nothing can vary")
    return simulate(scenario, draws=draw(scenario.uncertainty, count=count, seed=seed), book=book)


def duel(
    one: Scenario, other: Scenario, *, count: int = 10_000, seed: int = 1
) -> tuple[Outcome, Outcome]:
    """Two plans under the same draws of what either is unsure of."""
    ranges = {**other.uncertainty, **one.uncertainty}
    if not ranges:
        raise InvalidScenario("uncertainty", "names no input, so nothing can vary")
    draws = draw(ranges, count=count, seed=seed)
    return simulate(one, draws=draws), simulate(other, draws=draws)
