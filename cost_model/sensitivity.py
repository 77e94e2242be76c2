"""Tornado: how far one input at a time moves the bill."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from cost_model.errors import InvalidScenario
from cost_model.plan import plan
from cost_model.prices import PriceBook
from cost_model.read import check_numeric, get_input, inputs, show_input_briefly, with_input
from cost_model.scenario import Scenario

SWING = 0.2
"""Where the scenario names no range, an input goes this share down and up."""
CONVENTIONS = {"billing.month_hours", "network.directions"}
"""Choices of the biller, not guesses about the world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swing:
    """One bar of the tornado."""

    path: str
    low: str
    high: str
    at_low: Decimal
    at_high: Decimal
    base: Decimal
    """The bill itself: where an input has a best value, both ends may lie on one side of it."""

    @property
    def span(self) -> Decimal:
        """From the least of the three to the most."""
        return max(self.at_low, self.at_high, self.base) - min(self.at_low, self.at_high, self.base)


def tornado(
    scenario: Scenario,
    *,
    paths: Iterable[str] = (),
    swing: float = SWING,
    book: PriceBook | None = None,
) -> list[Swing]:
    """Bars, the widest first. All inputs that can move, unless paths are named."""
    named = list(paths)
    for path in named:
        check_numeric(path)
    candidates = named or [*(p for p in inputs() if p not in CONVENTIONS), *_priced(scenario, book)]
    base = plan(scenario, book=book, check=False).total
    bars = [_bar(scenario, path, base=base, swing=swing, book=book) for path in candidates]
    moving = [bar for bar in bars if bar is not None and (named or bar.span)]
    return sorted(moving, key=lambda bar: bar.span, reverse=True)


def _priced(scenario: Scenario, book: PriceBook | None) -> list[str]:
    """Prices that the scenario is unsure of, and those that make up most of its bill."""
    bill = plan(scenario, book=book, check=False)
    largest = sorted(bill.lines, key=lambda line: line.amount, reverse=True)[:5]
    keys = dict.fromkeys(line.price.key for line in largest if line.price.source.name != "scenario")
    unsure = [path for path in scenario.uncertainty if path.startswith("prices.")]
    return list(dict.fromkeys([*unsure, *(f"prices.{key}" for key in keys)]))


def _bar(
    scenario: Scenario, path: str, *, base: Decimal, swing: float, book: PriceBook | None
) -> Swing | None:
    value = get_input(scenario, path, book=book)
    if value is None:
        return None
    known = scenario.uncertainty.get(path)
    ends = (
        (known.low, known.high) if known is not None else (value * (1 - swing), value * (1 + swing))
    )
    low, high = (_inside(scenario, path, end, value) for end in ends)
    at_low, at_high = (
        plan(with_input(scenario, path, end), book=book, check=False).total for end in (low, high)
    )
    return Swing(
        path=path,
        low=show_input_briefly(path, low),
        high=show_input_briefly(path, high),
        at_low=at_low,
        at_high=at_high,
        base=base,
    )


def _inside(scenario: Scenario, path: str, end: float, itself: float) -> float:
    """The end of a swing, or the value itself where the end is no possible value."""
    for value in (end, float(round(end))):
        try:
            with_input(scenario, path, value)
        except InvalidScenario:
            continue
        return value
    return float(itself)
