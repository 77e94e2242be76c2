"""How the results of the cost model look on a terminal."""

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any, TextIO

import typer

from cost_model import Bill, PriceBook, Scenario
from cost_model.breakeven import Curve
from cost_model.estimate import Capacity
from cost_model.fields import shown, spec_of
from cost_model.growth import Years
from cost_model.montecarlo import Outcome
from cost_model.optimise import Optimum
from cost_model.policy import lifecycle, node_settings, topic_settings
from cost_model.prices import Price
from cost_model.read import as_dict, show_input_briefly
from cost_model.scenario import SECTIONS
from cost_model.sensitivity import Swing
from cost_model.text import BAR, bar, conventions, side_by_side, summary, usd
from cost_model.text import explain as explained
from cost_model.units import brief_duration, brief_size
from tierlog.cli.failure import say

BAR_LEAST = 6
CENTS_BELOW = 1000
CURVE_ROWS = 9
TORNADO_ROWS = 15
PERCENTILES = (10, 50, 90)


def show_bill(scenario: Scenario, bill: Bill, book: PriceBook, *, explain: bool) -> None:
    typer.echo(f"{bill.name}: {usd(bill.total)} a month")
    typer.echo(conventions(scenario, book))
    typer.echo("")
    for line in explained(bill) if explain else summary(bill):
        typer.echo(folded(line, _columns_of(sys.stdout)))
    if not explain:
        typer.echo(f"\nconfidence {bill.confidence}; --explain shows every line with its source")
    _warn(bill.warnings)


def _warn(warnings: Sequence[str]) -> None:
    for each in warnings:
        say(folded(f"note: {each}", _columns_of(sys.stderr)))


def folded(line: str, columns: int | None) -> str:
    """Over lines of the terminal, between words, behind the margin of the first. None: as it is,
    for whoever reads it is no terminal."""
    if columns is None or len(line) < columns:
        return line
    margin = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.fill(
        line,
        columns - 1,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _columns_of(stream: TextIO) -> int | None:
    return shutil.get_terminal_size().columns if stream.isatty() else None


def show_side_by_side(bills: Sequence[Bill]) -> None:
    head, *rows = side_by_side(bills)
    _print_columns(head, rows)
    typer.echo("")
    most = float(max(bill.total for bill in bills))
    named = max(len(bill.name) for bill in bills)
    for bill in bills:
        drawn = bar(float(bill.total), most, width=_bar_width([[bill.name.ljust(named)]], BAR * 2))
        typer.echo(f"{bill.name:<{named}}  {drawn}".rstrip())
    for bill in bills:
        _warn([f"{bill.name}: {each}" for each in bill.warnings])


def _print_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Text columns: the first to the left, figures to the right."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, *rows):
        first = f"{row[0]:<{widths[0]}}"
        rest = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        typer.echo("  ".join((first, *rest)).rstrip())


def show_tornado(base: Decimal, bars: Sequence[Swing]) -> None:
    typer.echo(f"{usd(base)} a month; one input at a time:\n")
    widest = float(bars[0].span) if bars else 0.0
    least = bars[TORNADO_ROWS:]
    cents = base < CENTS_BELOW
    rows = [
        [
            each.path,
            _ends(each),
            usd(each.at_low, cents=cents),
            usd(each.at_high, cents=cents),
        ]
        for each in bars[:TORNADO_ROWS]
    ]
    head = ["input", "from .. to", "at low", "at high"]
    wide = _bar_width([head, *rows])
    drawn = [bar(float(each.span), widest, width=wide) for each in bars[:TORNADO_ROWS]]
    cells = [[*row, each.ljust(wide)] for row, each in zip(rows, drawn, strict=True)]
    _print_columns([*head, "span".ljust(wide)], cells)
    if least:
        typer.echo(f"\n{len(least)} more move it by at most {usd(least[0].span)}; --json has them")


def _ends(swing: Swing) -> str:
    """24 .. 36 MB/s: a unit that both have is said once."""
    low, _, unit = swing.low.partition(" ")
    return f"{low if unit and swing.high.endswith(' ' + unit) else swing.low} .. {swing.high}"


def _bar_width(rows: Sequence[Sequence[str]], most: int = BAR) -> int:
    """What the terminal leaves; a pipe has room."""
    columns = shutil.get_terminal_size(fallback=(140, 24)).columns
    used = sum(max(len(row[at]) for row in rows) + 2 for at in range(len(rows[0])))
    return min(max(columns - used - 1, BAR_LEAST), most)


def outcome_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    rows = []
    for each in outcomes:
        row: dict[str, Any] = {"plan": each.name}
        row |= {f"p{percent}": each.percentile(percent) for percent in PERCENTILES}
        row["mean"] = each.mean
        if len(outcomes) > 1:
            rest = [other for other in outcomes if other is not each]
            row["costs_less"] = min(each.beats(other) for other in rest)
        rows.append(row)
    return rows


def show_outcomes(outcomes: Sequence[Outcome], *, draws: int, seed: int) -> None:
    typer.echo(f"US dollars a month over {draws:,} draws, seed {seed}\n")
    rows = outcome_rows(outcomes)
    head = [name.replace("_", " ") for name in rows[0]]
    _print_columns(head, [[cell(name, value) for name, value in row.items()] for row in rows])
    if outcomes[0].notes:
        _warn(outcomes[0].notes)
    if len(outcomes) == 2:
        first, second = outcomes
        typer.echo(
            f"\n{first.name} costs less than {second.name} in {first.beats(second):.1%} of draws"
        )


def cell(name: str, value: Any) -> str:
    if name == "costs_less":
        return f"{value:.1%}"
    return value if isinstance(value, str) else usd(value)


def curve_rows(curve: Curve) -> list[list[str]]:
    """The first is the head."""
    last = len(curve.at) - 1
    places = sorted({round(last * row / (CURVE_ROWS - 1)) for row in range(CURVE_ROWS)})
    rows = [
        [
            show_input_briefly(curve.path, curve.at[at]),
            usd(curve.usd[0][at]),
            usd(curve.usd[1][at]),
            curve.cheaper_at(at),
        ]
        for at in places
    ]
    return [[curve.path, *curve.names, "cheaper"], *rows]


def show_curve(curve: Curve) -> None:
    head, *rows = curve_rows(curve)
    _print_columns(head, rows)
    typer.echo("")
    for each in curve.crossings:
        typer.echo(f"break-even at {curve.path} = {show_input_briefly(curve.path, each)}")
    if curve.is_level:
        typer.echo("no break-even in this range: both cost the same all along")
    elif not curve.crossings:
        typer.echo(f"no break-even in this range: {curve.cheaper_at(0)} costs less all along")


def year_rows(grown: Years) -> list[list[str]]:
    """The first is the head."""
    groups = [group.name for group in grown.bill.groups]
    head = ["month", "in the bucket", *groups, "a month"]
    count = len(grown.usd)
    rows = [
        [
            str(at + 1),
            brief_size(grown.stored_bytes[at]),
            *(usd(grown.group(name)[at], cents=False) for name in groups),
            usd(grown.usd[at], cents=False),
        ]
        for at in sorted({0, *range(11, count, 12)})
    ]
    return [head, *rows]


def show_years(grown: Years) -> None:
    head, *rows = year_rows(grown)
    _print_columns(head, rows)
    typer.echo(f"\nall {len(grown.usd)} months: {usd(grown.total, cents=False)}")


def optimum_json(found: Optimum) -> dict[str, Any]:
    best = found.scenario
    return {
        "feasible": best is not None,
        "before_usd": str(found.before.total),
        "after_usd": None if found.bill is None else str(found.bill.total),
        "broken_before": found.broken_before,
        "refused": found.refused,
        "warnings": found.warnings,
        "scenario": None if best is None else as_dict(best),
        "topic": None if best is None else topic_settings(best),
        "node": None if best is None else node_settings(best),
        "lifecycle": None if best is None else lifecycle(best),
    }


def show_optimum(found: Optimum) -> None:
    typer.echo(f"now   {usd(found.before.total)} a month")
    for each in found.broken_before:
        typer.echo(f"      breaks a limit: {each}")
    if found.scenario is None or found.bill is None:
        typer.echo("best  nothing keeps these limits")
    else:
        _show_best(found.scenario, found.bill)
    for each in found.warnings:
        say(folded(f"warning: {each}", _columns_of(sys.stderr)))
    for each in found.refused:
        say(f"out of the question: {each}")


def classes_text(best: Scenario) -> str:
    first, *later = best.tiering.classes
    moves = (f", {stage.storage_class} after {brief_duration(stage.after)}" for stage in later)
    return f"{first.storage_class}{''.join(moves)}"


def _show_best(best: Scenario, bill: Bill) -> None:
    typer.echo(f"best  {usd(bill.total)} a month\n")
    typer.echo(f"classes: {classes_text(best)}")
    typer.echo("topic:")
    for name, value in topic_settings(best).items():
        typer.echo(f"  {name}={value}")
    typer.echo("node:")
    for name, value in node_settings(best).items():
        typer.echo(f"  {name}={value}")
    typer.echo("S3 lifecycle:")
    typer.echo(json.dumps(lifecycle(best), indent=2))
    _warn(bill.warnings)


def show_capacity(found: Capacity) -> None:
    rows = [
        ["messages a second", f"{found.messages_s:,.1f}"],
        ["at peak", f"{found.peak_messages_s:,.1f}"],
        ["written", f"{brief_size(found.write)}/s ({found.write / 2**20:,.4g} MiB/s)"],
        ["consumed", f"{brief_size(found.consume)}/s ({found.consume / 2**20:,.4g} MiB/s)"],
        ["retained", f"{brief_size(found.retained)} ({found.retained / 2**40:,.4g} TiB)"],
        ["on all replicas", f"{brief_size(found.replicated)}"],
        ["brokers", f"{found.brokers}"],
        ["in per broker", f"{brief_size(found.write_per_broker)}/s"],
        ["out per broker", f"{brief_size(found.consume_per_broker)}/s"],
    ]
    for name, value in rows:
        typer.echo(f"{name:<18} {value}")


def price_rows(book: PriceBook) -> list[dict[str, Any]]:
    return [
        {
            "price": each.key,
            "usd": f"{each.usd:f}",
            "per": str(each.per),
            "confidence": each.confidence,
            "source": each.source.name,
            "date": each.source.date,
        }
        for each in book
    ]


def change_rows(changes: Sequence[tuple[str, Price | None, Price | None]]) -> list[dict[str, Any]]:
    return [
        {
            "price": key,
            "here": None if old is None else f"{old.usd:f} per {old.per}",
            "there": None if new is None else f"{new.usd:f} per {new.per}",
        }
        for key, old, new in changes
    ]


def input_rows() -> list[dict[str, Any]]:
    rows = []
    for section, kind in SECTIONS.items():
        for each in fields(kind):
            if "spec" in each.metadata:
                spec = spec_of(each)
                rows.append(
                    {
                        "input": f"{section}.{each.name}",
                        "default": "-" if each.default is None else str(shown(spec, each.default)),
                        "why": spec.why,
                    }
                )
    return rows


def show_rows(rows: Sequence[dict[str, Any]], *, as_json: bool, none: str) -> None:
    if as_json:
        typer.echo(json.dumps(rows))
    elif rows:
        _print_left(rows)
    else:
        say(none)


def _print_left(rows: Sequence[dict[str, Any]]) -> None:
    """Columns of words. Nothing is cut: a terminal wraps what is too wide for it."""
    table = [list(rows[0]), *(["" if v is None else str(v) for v in row.values()] for row in rows)]
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    for row in table:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
