"""Break-even: where, along one input, two plans cost the same.

A curve over the range finds every stretch in which the sign of the difference changes; bisection
closes in on each. Steps (a broker more) may jump over zero: then the step itself is the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_model.arith import is_array
from cost_model.errors import InvalidScenario, NoBreakEven
from cost_model.fields import Kind
from cost_model.plan import plan
from cost_model.prices import PriceBook
from cost_model.read import check_numeric, kind_of, show_input, with_input
from cost_model.scenario import Scenario

POINTS = 129
NEITHER = "neither"
ROUNDS = 60
"""Halvings: enough to leave nothing of a 64-bit range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Monthly dollars of two plans along an input, and where they cross."""

    path: str
    names: tuple[str, str]
    at: list[float]
    usd: tuple[list[float], list[float]]
    crossings: list[float]

    def cheaper_at(self, index: int) -> str:
        mine, theirs = self.usd[0][index], self.usd[1][index]
        if mine == theirs:
            return NEITHER
        return self.names[0] if mine < theirs else self.names[1]

    @property
    def is_level(self) -> bool:
        """Whether both cost the same all along."""
        return self.usd[0] == self.usd[1]


def break_even(
    one: Scenario,
    other: Scenario | Callable[[Scenario], Scenario],
    *,
    path: str,
    low: float,
    high: float,
    book: PriceBook | None = None,
) -> Curve:
    """Along `path` from `low` to `high`. `other` is a plan of its own or made from the first."""
    check_numeric(path)
    if not 0 <= low < high:
        raise InvalidScenario(path, "the range must rise: 0 <= low < high")

    def pair(value: Any) -> tuple[Scenario, Scenario]:
        mine = with_input(one, path, value)
        return mine, other(mine) if callable(other) else with_input(other, path, value)

    def both(value: Any) -> tuple[Any, Any]:
        return tuple(_usd(each, value, book) for each in pair(value))

    def gap(value: float) -> float:
        mine, theirs = both(value)
        return float(mine - theirs)

    at = np.geomspace(low, high, POINTS) if low > 0 else np.linspace(low, high, POINTS)
    at[0], at[-1] = low, high  # geomspace may miss its own ends by a hair.
    whole = not path.startswith("prices.") and kind_of(path) is Kind.COUNT
    at = np.unique(np.rint(at)) if whole else at
    mine, theirs = both(at)
    signs = np.sign(mine - theirs)
    found = [
        _bisect(gap, float(at[i]), float(at[i + 1]), whole=whole)
        for i in np.nonzero(np.diff(signs))[0]
    ]
    names = tuple(each.name for each in pair(low))
    return Curve(
        path=path,
        names=(names[0], names[1]),
        at=at.tolist(),
        usd=(mine.tolist(), theirs.tolist()),
        crossings=found,
    )


def first_crossing(curve: Curve) -> float:
    if curve.crossings:
        return curve.crossings[0]
    low, high = (show_input(curve.path, end) for end in (curve.at[0], curve.at[-1]))
    if curve.is_level:
        raise NoBreakEven(f"both cost the same at every {curve.path} from {low} to {high}")
    raise NoBreakEven(
        f"{curve.cheaper_at(0)} costs less at every {curve.path} from {low} to {high}"
    )


def _usd(scenario: Scenario, value: Any, book: PriceBook | None) -> Any:
    usd: Any = plan(scenario, book=book, check=False).usd
    return np.full(len(value), usd) if is_array(value) and not is_array(usd) else usd


def _bisect(gap: Callable[[float], float], low: float, high: float, *, whole: bool) -> float:
    """The first value, coming from below, on the far side of the crossing."""
    rising = gap(high) > 0
    for _ in range(ROUNDS):
        middle = (low + high) // 2 if whole else (low + high) / 2
        if middle in (low, high):
            break
        if (gap(middle) > 0) == rising:
            high = middle
        else:
            low = middle
    return high
