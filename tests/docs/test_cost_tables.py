"""The page about costs tells every assumption and every command; the README what a month costs."""

import re

from tests.docs.cost_tables import BEGIN, END, PAGE, PLOT, README, drawn, month, with_table
from tierlog.cli.cost_bucket import cost_app, quote_app

_TEXT = re.compile(r">([^<>]+)</text>")


def test_the_page_has_the_assumptions_of_the_code() -> None:
    text = PAGE.read_text()
    assert BEGIN in text
    assert END in text
    assert text == with_table(text), "run: python -m tests.docs.cost_tables"


def test_the_page_names_every_command() -> None:
    text = PAGE.read_text()
    assert all(f"tierlog cost {each.name}" in text for each in cost_app.registered_commands)
    assert all(f"tierlog cost quote {each.name}" in text for each in quote_app.registered_commands)


def test_the_readme_says_what_a_month_costs_by_the_model() -> None:
    text = README.read_text()
    assert BEGIN in text
    assert text == with_table(text, month()), "run: python -m tests.docs.cost_tables"
    assert f"]({PLOT.parent.name}/{PLOT.name})" in text


def test_the_plot_of_the_readme_shows_the_figures_of_today() -> None:
    assert _TEXT.findall(PLOT.read_text()) == _TEXT.findall(drawn())
