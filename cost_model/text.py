"""Bills and results as plain text and Markdown, for a terminal, a file or a pull request."""

import math
from collections.abc import Sequence
from decimal import Decimal

from cost_model.bill import Bill, Group, Line
from cost_model.prices import PriceBook
from cost_model.scenario import Scenario

BAR = 24


def usd(amount: Decimal | float, *, cents: bool = True) -> str:
    """$1,234.56; tiny amounts keep two digits that say something."""
    value = float(amount)
    if value and abs(value) < 0.005:
        digits = min(1 - math.floor(math.log10(abs(value))), 12)
        return f"${value:.{digits}f}"
    return f"${value:,.2f}" if cents else f"${value:,.0f}"


def number(value: float) -> str:
    """A quantity: no more digits than help."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def share(part: Decimal, whole: Decimal) -> str:
    return f"{float(part / whole):.1%}" if whole else "-"


def bar(part: float, whole: float, *, width: int = BAR) -> str:
    filled = round(part / whole * width) if whole > 0 else 0
    return "█" * max(filled, 0)


def conventions(scenario: Scenario, book: PriceBook) -> str:
    gb = "2**30" if scenario.billing.gb == "binary" else "10**9"
    return (
        f"a month of {scenario.billing.month_hours:g} h; a GB of {gb} bytes; "
        f"prices of {book.generated}, {book.region}"
    )


def summary(bill: Bill) -> list[str]:
    """Groups with their amounts, the largest first."""
    total = bill.total
    rows = sorted(bill.groups, key=lambda group: group.amount, reverse=True)
    wide = max((len(usd(group.amount)) for group in rows), default=0)
    wide = max(wide, len(usd(total)))
    lines = [
        f"{group.name:<11} {usd(group.amount):>{wide}}  {share(group.amount, total):>6}  "
        f"{bar(float(group.amount), float(total))}"
        for group in rows
    ]
    return [*(line.rstrip() for line in lines), f"{'a month':<11} {usd(total):>{wide}}"]


def explain(bill: Bill, *, whole: str = "a month") -> list[str]:
    """Every line: quantity x unit price = amount, and where both come from."""
    out = []
    for group in bill.groups:
        out.append(f"{group.name}  {usd(group.amount)}")
        for line in group.lines:
            out += _explained(line)
        out.append("")
    return [*out, f"{whole}  {usd(bill.total)}", *_sources(bill)]


def _explained(line: Line) -> list[str]:
    price = line.price
    unit = str(line.quantity.unit)
    counted = f"{number(line.quantity.value)} {'x ' if unit[0].isdigit() else ''}{unit}"
    figure = f"{counted} x ${price.usd.normalize():f}"
    origin = f"[{price.confidence}, {price.source.name}, {price.source.date}]"
    note = f" ({price.note})" if price.note else ""
    return [
        f"  {line.item}",
        f"      {figure} = {usd(line.amount)}  {origin}{note}",
        f"      {line.how()}",
    ]


def _sources(bill: Bill) -> list[str]:
    used = {line.price.source.name: line.price.source for line in bill.lines}
    rows = [
        f"  {each.name}, {each.date}: {each.title}" + (f", {each.url}" if each.url else "")
        for each in used.values()
    ]
    meaning = "A provider's own, B dated secondary, C recalled, user: yours"
    return ["", f"confidence {bill.confidence} ({meaning})", "sources", *rows]


def side_by_side(bills: Sequence[Bill]) -> list[list[str]]:
    """Rows of a table: a head, groups, total, and how many times the cheapest."""
    names = list(dict.fromkeys(group.name for bill in bills for group in bill.groups))
    rows = [["", *(bill.name for bill in bills)]]
    rows += [[name, *(_amount(bill.group(name)) for bill in bills)] for name in names]
    rows.append(["a month", *(usd(bill.total) for bill in bills)])
    least = min(bill.total for bill in bills)
    if least > 0:
        rows.append(["x cheapest", *(f"{bill.total / least:.2f}" for bill in bills)])
    return rows


def _amount(group: Group) -> str:
    return usd(group.amount) if group.lines else "-"


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table: the first row is the head, numbers stand to the right."""
    head, *body = rows
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *body)]
