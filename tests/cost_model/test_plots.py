"""Plots are drawn, and pages need nothing but themselves."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cost_model import load, plan, plots
from cost_model.breakeven import break_even
from cost_model.growth import grow
from cost_model.montecarlo import duel
from cost_model.page import bill_tree, page, plot, table
from cost_model.presets import preset
from cost_model.sensitivity import tornado

EXAMPLES = Path(__file__).parents[2] / "examples" / "cost"
SCENARIO = load(EXAMPLES / "compliance.yaml")
BILL = plan(SCENARIO)
KAFKA = preset("kafka-tiered", SCENARIO)


def curve() -> Any:
    return break_even(
        SCENARIO, lambda each: preset("kafka", each), path="workload.retention", low=3600, high=1e6
    )


CHARTS: dict[str, Callable[[], Any]] = {
    "components": lambda: plots.components([BILL, plan(KAFKA)]),
    "tornado": lambda: plots.tornado(float(BILL.total), tornado(SCENARIO)),
    "break-even": lambda: plots.break_even(curve()),
    "growth": lambda: plots.growth(grow(SCENARIO, months=24)),
    "histogram": lambda: plots.histogram(duel(SCENARIO, KAFKA, count=500)),
    "amounts": lambda: plots.amounts([("orders", 3.0), ("clicks", 1.0)], what="topic"),
}
MONTH = "US dollars a month"
WORDS = {
    "components": ["What a month costs, by component", "kafka tiered", "store", MONTH],
    "tornado": [
        "What moves the bill of $21,723, one input at a time",
        "workload.write: 15 MB/s to 40 MB/s",
        "at its high end",
    ],
    "break-even": [
        "compliance or kafka on disk: they do not meet in this range",
        "workload.retention, hours (logarithmic)",
        MONTH,
    ],
    "growth": ["Month by month, $", "years from now", "store", MONTH],
    "histogram": ["How 500 draws of the bill spread", "share of draws", "compliance", MONTH],
    "amounts": ["What a month costs, by topic", "orders", "$3.00", MONTH],
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_plot_says_what_it_shows(name: str) -> None:
    drawn = plots.svg(CHARTS[name](), name=name)
    for words in WORDS[name]:
        assert words in drawn, words
    assert "NaN" not in drawn
    assert "$0k" not in drawn
    ids = re.findall(r'\bid="([^"]+)"', drawn)
    assert all(each.startswith(f"{name}-") for each in ids)


def ticks(chart: Any, axis: str) -> list[float]:
    found: list[float] = chart.to_dict()["layer"][0]["encoding"][axis]["axis"]["values"]
    return found


def test_plans_that_lie_far_apart_are_both_seen() -> None:
    """Seven years on disk cost hundreds of times a week: a linear axis hides all but them."""
    year = 365 * 86_400.0
    made = plots.break_even(
        break_even(
            SCENARIO,
            lambda each: preset("kafka", each),
            path="workload.retention",
            low=3600,
            high=7 * year,
        )
    )
    drawn = plots.svg(made)
    assert "US dollars a month (logarithmic)" in drawn
    assert {2000, 5000, 10_000, 100_000, 200_000, 500_000} <= set(ticks(made, "y"))
    for label in ("$5k", "$10k", "$20k", "$500k"):
        assert f">{label}<" in drawn, label


def test_a_break_even_is_named_in_the_title() -> None:
    heavy = load(EXAMPLES / "replay-heavy.yaml")
    other = preset("kafka-tiered", heavy)
    made = break_even(heavy, other, path="reads.replay", low=1e12, high=2e15)
    title = "replay-heavy or kafka tiered: they meet at 402 TB"
    assert title in plots.svg(plots.break_even(made))


def test_a_crossing_of_lines_that_lie_close_is_seen_as_a_difference() -> None:
    given = load(EXAMPLES / "three-lines.yaml")
    made = break_even(
        given,
        lambda each: preset("kafka-tiered", each),
        path="workload.retention",
        low=3600,
        high=7 * 365 * 86_400.0,
    )
    (at,) = made.crossings
    chart = plots.break_even(made)
    drawn = plots.svg(chart)
    assert "What three-lines costs more than kafka tiered around there" in drawn
    below = chart.to_dict()["vconcat"][1]["layer"][0]["data"]["values"]
    days = [row["at"] for row in below]
    assert min(days) * 86_400 == pytest.approx(at / 3, rel=0.2)
    assert max(days) * 86_400 == pytest.approx(at * 3, rel=0.2)
    assert min(row["usd"] for row in below) < 0 < max(row["usd"] for row in below)


def test_a_plan_beside_itself_has_a_picture_that_says_so() -> None:
    same = break_even(SCENARIO, SCENARIO, path="workload.retention", low=3600, high=1e6)
    assert "they cost the same" in plots.svg(plots.break_even(same))


def test_the_figure_of_the_longest_bar_has_a_place() -> None:
    for chart, most in ((plots.components([BILL]), BILL.usd), (CHARTS["amounts"](), 3.0)):
        layer = chart.to_dict()["layer"][0]
        assert layer["encoding"]["x"]["scale"]["domain"] == [0, pytest.approx(most * 1.15)]


def test_a_month_is_as_wide_as_a_month() -> None:
    rows = CHARTS["growth"]().to_dict()["data"]["values"]
    years = sorted({row["year"] for row in rows})
    assert (years[0], years[-1], len(years)) == (0, 2, 25)


def test_components_that_nobody_could_see_are_one() -> None:
    rows = plots.components([BILL]).to_dict()["layer"][0]["data"]["values"]
    named = {row["component"]: row["usd"] for row in rows}
    assert sum(named.values()) == pytest.approx(float(BILL.total))
    assert "keys" not in named
    assert 0 < named["other"] < 0.02 * float(BILL.total)


def test_a_plot_is_a_picture_too() -> None:
    assert plots.png(CHARTS["amounts"]()).startswith(b"\x89PNG")


def test_a_page_loads_nothing_and_has_every_line() -> None:
    drawn = plot(CHARTS["components"](), name="one", caption="<b>")
    made = page("A <title>", [drawn, table([["a", "b"], ["<x>", "1"]]), bill_tree(BILL)])
    for tag in ("<script", "<link", "<img", "<iframe", "@import", "src="):
        assert tag not in made
    assert "A &lt;title&gt;" in made
    assert "&lt;x&gt;" in made
    for line in BILL.lines:
        assert line.item in made
        assert line.price.source.date in made
