"""Two scenarios as a pull request shows them: what changed, and what that costs."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from cost_model.bill import Bill
from cost_model.plan import plan
from cost_model.prices import PriceBook
from cost_model.read import as_dict
from cost_model.scenario import Scenario
from cost_model.text import markdown, usd

LINES_MAX = 12


def changed_inputs(old: Scenario, new: Scenario) -> list[tuple[str, str, str]]:
    """Path, old and new value of every input that differs."""
    before, after = (dict(_flat(as_dict(each))) for each in (old, new))
    # Names and ranges of doubt do not change a bill.
    known = dict.fromkeys((*before, *after))
    paths = [path for path in known if path.partition(".")[0] not in {"name", "uncertainty"}]
    pairs = [(path, before.get(path, "-"), after.get(path, "-")) for path in paths]
    return [row for row in pairs if row[1] != row[2]]


def _flat(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", _word(value)


def _word(value: Any) -> str:
    if isinstance(value, list):
        first, *later = value
        return ", ".join(
            [first["class"], *(f"{row['class']} after {row['after']}" for row in later)]
        )
    return str(value)


def diff_markdown(old: Scenario, new: Scenario, *, book: PriceBook | None = None) -> str:
    """Markdown for a pull request."""
    before, after = plan(old, book=book), plan(new, book=book)
    said = [f"### Cost: {_headline(before.total, after.total)}", ""]
    inputs = changed_inputs(old, new)
    if inputs:
        said += [*_table(["input", "before", "after"], inputs), ""]
    else:
        said += ["No input differs.", ""]
    if before.total != after.total:
        said += [*_groups(before, after), "", *_details(before, after)]
    fresh = [each for each in after.warnings if each not in before.warnings]
    said += [f"- **Note:** {each}" for each in fresh]
    said.append(f"Lowest confidence of a price that matters: {after.confidence}.")
    return "\n".join(said) + "\n"


def _headline(before: Decimal, after: Decimal) -> str:
    if before == after:
        return f"unchanged at {usd(after)} a month"
    verb = "up" if after > before else "down"
    by = f", {float(abs(after - before) / before):.1%}" if before else ""
    return f"{verb} {usd(abs(after - before))} a month{by}, from {usd(before)} to {usd(after)}"


def _table(head: list[str], rows: list[tuple[str, str, str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _groups(before: Bill, after: Bill) -> list[str]:
    names = dict.fromkeys(group.name for bill in (before, after) for group in bill.groups)
    pairs = [(name, before.group(name).amount, after.group(name).amount) for name in names]
    pairs.append(("**a month**", before.total, after.total))
    rows = [[name, usd(old), usd(new), change(old, new)] for name, old, new in pairs]
    return markdown([["", "before", "after", "change"], *rows])


def change(old: Decimal, new: Decimal) -> str:
    if old == new:
        return "="
    return f"{'+' if new > old else '-'}{usd(abs(new - old))}"


def _details(before: Bill, after: Bill) -> list[str]:
    """The lines that changed most, folded away."""
    old, new = (_by_item(bill) for bill in (before, after))
    moved = [
        (item, old.get(item, Decimal(0)), new.get(item, Decimal(0)))
        for item in dict.fromkeys((*old, *new))
        if old.get(item) != new.get(item)
    ]
    moved.sort(key=lambda row: abs(row[2] - row[1]), reverse=True)
    rows = [[item, usd(was), usd(now), change(was, now)] for item, was, now in moved[:LINES_MAX]]
    table = markdown([["line", "before", "after", "change"], *rows])
    rest = len(moved) - len(rows)
    more = [f"and {rest} smaller"] if rest > 0 else []
    title = "<details><summary>Lines that changed most</summary>"
    return [title, "", *table, *more, "", "</details>", ""]


def _by_item(bill: Bill) -> dict[str, Decimal]:
    return {line.item: line.amount for line in bill.lines}
