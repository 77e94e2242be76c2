"""The chain over entries: any change shows."""

from dataclasses import fields, replace
from typing import Any

import pytest

from tests.cold.makers import TOPIC_ID, an_entry, entries
from tierlog.cold import chain
from tierlog.cold.entry import Entry, Replaced
from tierlog.cold.errors import ColdCorrupt
from tierlog.types import Offset

START = chain.genesis(TOPIC_ID, 7)


def test_a_chain_that_was_linked_checks() -> None:
    linked = chain.linked(START, entries(range(5)))
    assert chain.check(START, linked, key="k") == linked[-1].chain


def test_partitions_begin_with_different_values() -> None:
    assert len({START, chain.genesis(TOPIC_ID, 8), chain.genesis("another", 7)}) == 3


def test_an_entry_that_was_dropped_or_moved_breaks_the_chain() -> None:
    one, two, three = chain.linked(START, entries(range(3)))
    for wrong in ((one, three), (two, one, three), (one, two, two, three)):
        with pytest.raises(ColdCorrupt, match="chain breaks"):
            chain.check(START, wrong, key="k")


def other(name: str, value: object) -> Any:
    """Another value of the same shape."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value[:-1] + ("0" if not value.endswith("0") else "1")
        case None if name == "replaces":
            return Replaced("00" * 32, 2, "00" * 32, "00" * 32)
        case None:
            return "x"
        case dict():
            return value | {"another": (1, 1)}
        case tuple():
            return (*value, *value, "x")[:-1] or ("x",)
    raise AssertionError(value)


@pytest.mark.parametrize("name", [field.name for field in fields(Entry)])
def test_the_chain_covers_every_field(name: str) -> None:
    (entry,) = chain.linked(START, [an_entry()])
    with pytest.raises(ColdCorrupt):
        chain.check(START, [replace(entry, **{name: other(name, getattr(entry, name))})], key="k")


def test_a_moved_base_with_its_samples_shows() -> None:
    (entry,) = chain.linked(START, [an_entry()])
    moved = replace(
        entry,
        base=Offset(entry.base + 1),
        samples=tuple(one._replace(offset=Offset(one.offset + 1)) for one in entry.samples),
    )
    with pytest.raises(ColdCorrupt):
        chain.check(START, [moved], key="k")
