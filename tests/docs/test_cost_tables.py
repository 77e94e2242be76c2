"""The page about costs tells every assumption and every command."""

from tests.docs.cost_tables import BEGIN, END, PAGE, with_table
from tierlog.cli.cost import cost_app


def test_the_page_has_the_assumptions_of_the_code() -> None:
    text = PAGE.read_text()
    assert BEGIN in text
    assert END in text
    assert text == with_table(text), "run: python -m tests.docs.cost_tables"


def test_the_page_names_every_command() -> None:
    text = PAGE.read_text()
    assert all(f"tierlog cost {each.name}" in text for each in cost_app.registered_commands)
