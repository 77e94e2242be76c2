"""What people read: a bill, its explanation, a comparison, a pull request."""

import re
from decimal import Decimal

import pytest

from cost_model import from_dict, plan
from cost_model.diff import changed_inputs, diff_markdown
from cost_model.presets import preset
from cost_model.text import explain, markdown, side_by_side, summary, usd

WEEK = from_dict({"name": "week", "workload": {"write": "30 MB/s", "retention": "7 d"}})
YEAR = from_dict(
    {
        "name": "year",
        "workload": {"write": "30 MB/s", "retention": "1 year"},
        "tiering": {"classes": [{"class": "STANDARD"}, {"class": "DEEP_ARCHIVE", "after": "30 d"}]},
    }
)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "$0.00"), (1234.567, "$1,234.57"), (0.0001234, "$0.00012"), (Decimal("0.005"), "$0.01")],
)
def test_dollars_are_short_and_never_round_something_to_nothing(
    amount: Decimal | float, text: str
) -> None:
    assert usd(amount) == text


def test_every_line_of_an_explanation_can_be_reckoned_again() -> None:
    text = "\n".join(explain(plan(WEEK)))
    found = re.findall(r"([\d,.]+) (?:x )?(\S.*?) x \$([\d.]+) = \$([\d,.]+)  \[(\w+), ", text)
    assert len(found) == len(list(plan(WEEK).lines))
    for quantity, _unit, price, amount, _confidence in found:
        product = float(quantity.replace(",", "")) * float(price)
        # Quantities are printed with at least four digits.
        assert product == pytest.approx(float(amount.replace(",", "")), rel=1e-3, abs=0.006)


def test_an_explanation_names_every_source_with_its_date() -> None:
    text = "\n".join(explain(plan(WEEK)))
    sources = {line.price.source for line in plan(WEEK).lines}
    assert all(f"{each.name}, {each.date}: {each.title}" in text for each in sources)


def test_a_summary_puts_the_largest_group_first_and_the_total_last() -> None:
    lines = summary(plan(WEEK))
    assert lines[0].startswith("network")
    assert lines[-1].split()[-1] == usd(plan(WEEK).total)


def test_plans_side_by_side_end_with_how_many_times_the_cheapest() -> None:
    head, *_, total, times = side_by_side([plan(WEEK), plan(preset("kafka", WEEK))])
    assert head == ["", "week", "kafka on disk"]
    assert total[0] == "a month"
    assert times[1] == "1.00"
    assert float(times[2]) > 1


def test_a_diff_is_markdown_with_inputs_groups_and_lines() -> None:
    text = diff_markdown(WEEK, YEAR)
    assert text.startswith("### Cost: up $")
    assert "| workload.retention | 7 d | 1 y |" in text
    assert "| tiering.classes | STANDARD | STANDARD, DEEP_ARCHIVE after 30 d |" in text
    assert "| store |" in text
    assert "<details>" in text
    assert "first byte from DEEP_ARCHIVE takes 12 h" in text


def test_a_diff_of_the_same_says_so() -> None:
    text = diff_markdown(WEEK, WEEK)
    assert text.startswith("### Cost: unchanged at $")
    assert "No input differs." in text
    assert changed_inputs(WEEK, WEEK) == []


def test_a_diff_that_saves_says_down() -> None:
    assert diff_markdown(YEAR, WEEK).startswith("### Cost: down $")


def test_a_table_has_its_numbers_to_the_right() -> None:
    assert markdown([["a", "b"], ["x", "1"]]) == ["| a | b |", "| --- | ---: |", "| x | 1 |"]
