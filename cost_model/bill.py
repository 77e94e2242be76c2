"""A bill: a tree of lines, each quantity x unit price = amount, with source, date and confidence.

Amounts are decimals in whole nano-dollars, so that every total is exactly the sum of its parts, in
whatever order they are added. A line remembers how its quantity came about, in words and numbers.

A bill whose quantities are arrays (many draws at once) has no decimals; `usd` gives its totals.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from cost_model.arith import every
from cost_model.errors import UnitMismatch
from cost_model.prices import CONFIDENCES, Price
from cost_model.units import Quantity

NANO = Decimal("0.000000001")
_EXACT = Context(prec=100, rounding=ROUND_HALF_EVEN)
SIGNIFICANT_SHARE = Decimal("0.01")
"""Lines below this share of the total do not pull down the confidence of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One figure of a bill."""

    item: str
    quantity: Quantity
    price: Price
    how: Callable[[], str] = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.quantity.unit is not self.price.per:
            raise UnitMismatch(
                f"{self.item}: {self.quantity.unit} cannot be priced per {self.price.per} "
                f"({self.price.key})"
            )

    @property
    def amount(self) -> Decimal:
        exact = _EXACT.multiply(Decimal(float(self.quantity.value)), self.price.usd)
        return exact.quantize(NANO, context=_EXACT)

    @property
    def usd(self) -> float:
        """As a float, or an array of draws."""
        return self.quantity.value * self.price.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Lines that belong together: disks, store, network."""

    name: str
    lines: tuple[Line, ...]

    @property
    def amount(self) -> Decimal:
        return sum((line.amount for line in self.lines), Decimal(0))

    @property
    def usd(self) -> float:
        return sum((line.usd for line in self.lines), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a month costs."""

    name: str
    groups: tuple[Group, ...]
    warnings: tuple[str, ...] = ()

    @property
    def lines(self) -> Iterator[Line]:
        for group in self.groups:
            yield from group.lines

    @property
    def total(self) -> Decimal:
        return sum((group.amount for group in self.groups), Decimal(0))

    @property
    def usd(self) -> float:
        return sum((group.usd for group in self.groups), 0.0)

    def group(self, name: str) -> Group:
        """A group by name; an empty one where the bill has none."""
        return next((each for each in self.groups if each.name == name), Group(name=name, lines=()))

    @property
    def confidence(self) -> str:
        """The lowest among the lines that matter."""
        total = self.total
        counted = [line.price.confidence for line in self.lines if _matters(line, total)]
        return min(counted, key=CONFIDENCES.index, default="A")

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "usd_month": str(self.total),
            "confidence": self.confidence,
            "warnings": list(self.warnings),
            "groups": [
                {
                    "name": group.name,
                    "usd_month": str(group.amount),
                    "lines": [_line_json(line) for line in group.lines],
                }
                for group in self.groups
            ],
        }


def _matters(line: Line, total: Decimal) -> bool:
    return abs(line.amount) > abs(total) * SIGNIFICANT_SHARE


def _line_json(line: Line) -> dict[str, Any]:
    return {
        "item": line.item,
        "quantity": line.quantity.value,
        "unit": str(line.quantity.unit),
        "usd_per_unit": str(line.price.usd),
        "usd": str(line.amount),
        "how": line.how(),
        "price": line.price.key,
        "source": line.price.source.name,
        "date": line.price.source.date,
        "confidence": line.price.confidence,
    }


def bill_of(
    name: str, groups: Mapping[str, Iterable[Line]], *, warnings: Iterable[str] = ()
) -> Bill:
    """A bill of the groups that have a line; lines that count nothing are left out."""
    made = [
        Group(name=group, lines=tuple(line for line in lines if _counts(line)))
        for group, lines in groups.items()
    ]
    return Bill(
        name=name, groups=tuple(each for each in made if each.lines), warnings=tuple(warnings)
    )


def _counts(line: Line) -> bool:
    return not every(line.quantity.value == 0)
