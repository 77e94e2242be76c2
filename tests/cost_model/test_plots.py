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
WORDS = {
    "components": ["kafka tiered", "store", "US dollars a month"],
    "tornado": ["workload.write: 15 MB/s to 40 MB/s", "at its high end"],
    "break-even": ["workload.retention, hours (logarithmic)", "compliance", "kafka on disk"],
    "growth": ["years from now", "store"],
    "histogram": ["share of draws", "compliance"],
    "amounts": ["orders", "$3.00"],
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
