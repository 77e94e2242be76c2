"""Scenarios as commands name them: a file, changes by --set, another file or a preset."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from cost_model import CostError, PriceBook, Scenario, default_book, load
from cost_model.presets import PRESETS
from cost_model.prices import load_book
from cost_model.read import parse_input, with_input
from tierlog.cli.failure import usage

Other: TypeAlias = Scenario | Callable[[Scenario], Scenario]
"""A scenario, or how to make one from the first."""


@contextmanager
def checked() -> Iterator[None]:
    """A wrong scenario is a usage error with the sentence of the cost model."""
    try:
        yield
    except CostError as error:
        raise usage(str(error)) from None


def read(file: Path, *, sets: Sequence[str], book: PriceBook) -> Scenario:
    scenario = load(file, book=book)
    for each in sets:
        path, equals, value = each.partition("=")
        if not equals:
            raise usage(f"--set {each} is not of the form input=value")
        path = path.strip()
        scenario = with_input(scenario, path, parse_input(path, value.strip()), book=book)
    return scenario


def book_of(prices: Path | None) -> PriceBook:
    if prices is None:
        return default_book()
    try:
        return load_book(prices)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise usage(f"{prices} is not a price book: {error}") from None


def known_class(name: str, book: PriceBook) -> None:
    if name not in book.classes:
        raise usage(f"--class {name} is unknown; known are {', '.join(book.classes)}")


def other_of(name: str, *, book: PriceBook) -> Other:
    """What --against names: a preset, else a file."""
    if name in PRESETS:
        return PRESETS[name]
    if not Path(name).exists():
        raise usage(f"--against {name} is neither a file nor one of {', '.join(PRESETS)}")
    return load(Path(name), book=book)


def beside(scenario: Scenario, other: Other) -> Scenario:
    return other(scenario) if callable(other) else other
