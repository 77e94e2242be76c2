"""The README tells what is served."""

from tests.docs.api_table import BEGIN, END, README, with_table


def test_the_readme_has_the_table_of_the_dispatcher() -> None:
    text = README.read_text()
    assert BEGIN in text
    assert END in text
    assert text == with_table(text), "run: python -m tests.docs.api_table"
