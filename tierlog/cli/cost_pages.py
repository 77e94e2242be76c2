"""The results of the cost commands as pages: `--html FILE`. Plots, tables, every line, sources."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from cost_model import Bill, PriceBook, Scenario, plots
from cost_model.breakeven import Curve
from cost_model.growth import Years
from cost_model.montecarlo import Outcome
from cost_model.optimise import Optimum
from cost_model.page import (
    bill_tree,
    heading,
    note,
    page,
    paragraph,
    plot,
    preformatted,
    table,
)
from cost_model.policy import lifecycle, node_settings, topic_settings
from cost_model.read import show_input_briefly
from cost_model.sensitivity import Swing, tornado
from cost_model.text import conventions, side_by_side, usd
from tierlog.cli import cost_views as views

BARS = 15
STEADY = "A steady month: as many bytes expire as arrive."


def plan_page(file: Path, scenario: Scenario, bill: Bill, book: PriceBook) -> None:
    bars = tornado(scenario, book=book)
    parts = [
        paragraph(f"{usd(bill.total)} a month. Reckoned with {conventions(scenario, book)}."),
        *(note(each) for each in bill.warnings),
        plot(plots.components([bill]), name="bill", caption=STEADY),
        heading("What moves it"),
        *_tornado(float(bill.total), bars),
        heading("Every line"),
        bill_tree(bill),
    ]
    _write(file, f"What {bill.name} costs", parts)


def compare_page(file: Path, bills: Sequence[Bill]) -> None:
    parts = [
        plot(plots.components(bills), name="plans", caption=STEADY),
        table(side_by_side(bills)),
        *(note(f"{bill.name}: {each}") for bill in bills for each in bill.warnings),
    ]
    for bill in bills:
        parts += [heading(f"{bill.name}, every line"), bill_tree(bill)]
    _write(file, f"{bills[0].name} beside {', '.join(bill.name for bill in bills[1:])}", parts)


def sensitivity_page(file: Path, bill: Bill, bars: Sequence[Swing]) -> None:
    parts = [paragraph(f"{usd(bill.total)} a month."), *_tornado(float(bill.total), bars)]
    _write(file, f"What moves the bill of {bill.name}", parts)


def _tornado(base: float, bars: Sequence[Swing]) -> list[str]:
    rows = [["input", "from", "to", "at low", "at high"]]
    rows += [
        [each.path, each.low, each.high, usd(each.at_low), usd(each.at_high)]
        for each in bars[:BARS]
    ]
    caption = "One input at a time, over its range or 20 % down and up; the line is the bill."
    return [
        plot(plots.tornado(base, bars), name="tornado", caption=caption),
        table(rows, words=3),
    ]


def montecarlo_page(file: Path, outcomes: Sequence[Outcome], *, draws: int, seed: int) -> None:
    rows = views.outcome_rows(outcomes)
    head = [name.replace("_", " ") for name in rows[0]]
    body = [[views.cell(name, value) for name, value in row.items()] for row in rows]
    caption = f"{draws:,} draws, seed {seed}."
    parts = [
        *(note(each) for each in outcomes[0].notes),
        plot(plots.histogram(outcomes), name="draws", caption=caption),
        table([head, *body]),
    ]
    _write(file, f"How sure the bill of {outcomes[0].name} is", parts)


def curve_page(file: Path, curve: Curve) -> None:
    none = "They cost the same." if curve.is_level else "They do not meet in this range."
    meets = [f"They meet at {show_input_briefly(curve.path, at)}." for at in curve.crossings]
    caption = f"Both plans along {curve.path}, all else as it is."
    parts = [
        *(paragraph(each) for each in meets or [none]),
        plot(plots.break_even(curve), name="curve", caption=caption),
        table(views.curve_rows(curve)),
    ]
    _write(file, f"{curve.names[0]} or {curve.names[1]}", parts)


def growth_page(file: Path, name: str, grown: Years) -> None:
    parts = [
        paragraph(f"All {len(grown.usd)} months: {usd(grown.total, cents=False)}."),
        plot(
            plots.growth(grown),
            name="growth",
            caption="What expires and what it is kept in follows the age of each month's bytes.",
        ),
        table(views.year_rows(grown)),
    ]
    _write(file, f"{name} over the years", parts)


def optimum_page(file: Path, found: Optimum) -> None:
    limits = [note(f"Breaks a limit now: {each}.") for each in found.broken_before]
    left_out = [paragraph(f"Out of the question: {each}.") for each in found.refused]
    if found.scenario is None or found.bill is None:
        parts = [paragraph("Nothing keeps these limits."), *limits, *left_out]
    else:
        parts = [*_optimum(found, found.scenario, found.bill), *limits, *left_out]
    _write(file, f"The cheapest policy for {found.before.name}", parts)


def _optimum(found: Optimum, best: Scenario, bill: Bill) -> list[str]:
    bills = [replace(found.before, name="now"), replace(bill, name="cheapest policy")]
    settings = [["setting", "value"], *map(list, topic_settings(best).items())]
    settings += map(list, node_settings(best).items())
    rules = json.dumps(lifecycle(best), indent=2)
    return [
        paragraph(f"{usd(bill.total)} a month; now {usd(found.before.total)}."),
        *(note(each) for each in (*found.warnings, *bill.warnings)),
        plot(plots.components(bills), name="bills", caption=STEADY),
        table(side_by_side(bills)),
        paragraph(f"Classes: {views.classes_text(best)}."),
        table(settings, words=2),
        heading("S3 lifecycle rules"),
        preformatted(rules),
        heading("Every line"),
        bill_tree(bill),
    ]


def actual_page(
    file: Path,
    bill: Bill,
    by_topic: Mapping[str, Decimal],
    rows: Sequence[Sequence[str]],
    charged: Sequence[Sequence[str]] | None,
) -> None:
    """`charged`: who pays for requests, where a node was asked."""
    order = sorted(by_topic.items(), key=lambda part: -part[1])
    topics = [(name, float(amount)) for name, amount in order]
    parts = [
        paragraph(f"{usd(bill.total)} a month, if everything stays as it lies now."),
        table(rows, words=2),
        plot(plots.components([bill]), name="standing", caption="By what objects are there for."),
        plot(
            plots.amounts(topics, what="topic"),
            name="topics",
            caption="Each line of the bill by the bytes that a topic has in it.",
        ),
        table([["topic", "a month"], *([name, usd(amount)] for name, amount in order)]),
        *([heading("Requests since the node started"), table(charged)] if charged else []),
        heading("Every line"),
        bill_tree(bill),
    ]
    _write(file, f"What {bill.name} costs now", parts)


def _write(file: Path, title: str, parts: Sequence[str]) -> None:
    file.write_text(page(title, parts), encoding="utf-8")
