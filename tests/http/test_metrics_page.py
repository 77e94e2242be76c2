"""The page on metrics says what the code does."""

import re

from tests.http.metrics_page import PAGE, page
from tierlog.http.families import FAMILIES

NAME = re.compile(r"tierlog(_[a-z]+)+\Z")
UNITS = ("_bytes", "_seconds", "_info", "_bytes_max")


def test_the_page_is_the_one_that_the_families_make() -> None:
    assert PAGE.read_text() == page(), "run: python -m tests.http.metrics_page"


def test_names_follow_the_rules_and_stand_once() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert NAME.match(family.name)
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
        if family.kind == "histogram":
            assert family.name.endswith(UNITS), family.name


def test_help_is_a_sentence_that_fits_a_table() -> None:
    for family in FAMILIES:
        assert family.help[0].isupper() or family.help[0].isdigit(), family.name
        assert family.help.endswith("."), family.name
        assert "|" not in family.help, family.name
        assert "\n" not in family.help, family.name
