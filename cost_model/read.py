"""Scenarios in and out: YAML text, plain dictionaries, single inputs by dotted path.

Every error names the field; an unknown key gets the nearest known one. What is written out reads
back as the same scenario.
"""

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from cost_model.errors import InvalidScenario, nearest
from cost_model.fields import NUMERIC, Kind, Spec, check_value, read_value, shown, spec_of
from cost_model.prices import PriceBook, default_book
from cost_model.scenario import SECTIONS, Range, Scenario, Stage, check_price
from cost_model.text import number
from cost_model.units import brief_duration, brief_size, duration_text

TOP = {"name", *SECTIONS, "prices", "uncertainty"}
SHAPES = ("triangular", "lognormal")


def load(path: Path, *, book: PriceBook | None = None) -> Scenario:
    """A scenario from a YAML file; named after the file unless it says otherwise."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidScenario("", f"{path} is not text in UTF-8") from None
    return parse(text, name=path.stem, book=book)


def parse(text: str, *, name: str = "scenario", book: PriceBook | None = None) -> Scenario:
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise InvalidScenario("", f"{name} is not YAML{line}") from None
    return from_dict({"name": name, **_mapping(given or {}, path=name)}, book=book)


def scenario(*, book: PriceBook | None = None, **given: Any) -> Scenario:
    """`scenario(workload={"write": "30 MB/s"}, cluster={"replicas": 3})`."""
    return from_dict(given, book=book)


def from_dict(given: Mapping[str, Any], *, book: PriceBook | None = None) -> Scenario:
    book = book or default_book()
    _check_keys(given, TOP, path="")
    parts: dict[str, Any] = {
        name: _section(name, _mapping(given[name] or {}, path=name), book)
        for name in SECTIONS
        if name in given
    }
    prices = _mapping(given.get("prices") or {}, path="prices")
    made = Scenario(
        name=_name(given.get("name", "scenario")),
        prices={key: _usd(key, usd, book) for key, usd in prices.items()},
        **parts,
    )
    ranges = _mapping(given.get("uncertainty") or {}, path="uncertainty")
    return replace(made, uncertainty={path: _range(path, row) for path, row in ranges.items()})


def _name(given: Any) -> str:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise InvalidScenario("name", f"{given!r} is not a name, such as orders")
    return str(given)


def _section(name: str, given: Mapping[str, Any], book: PriceBook) -> Any:
    kind = SECTIONS[name]
    known = {each.name: each for each in fields(kind)}
    _check_keys(given, set(known), path=name)
    values: dict[str, Any] = {
        key: _stages(value, book)
        if key == "classes"
        else read_value(spec_of(known[key]), value, path=f"{name}.{key}")
        for key, value in given.items()
    }
    if name == "cluster":
        _check_instance(values.get("instance", "m7g.xlarge"), book)
    if name == "billing":
        _check_region(values.get("region", book.region), book)
    return kind(**values)


def _check_region(region: str, book: PriceBook) -> None:
    if region != book.region:
        raise InvalidScenario(
            "billing.region", f"{region!r} has no prices here; the price book is for {book.region}"
        )


def _check_instance(instance: str, book: PriceBook) -> None:
    if instance not in book.instances:
        hint = nearest(instance, book.instances)
        raise InvalidScenario("cluster.instance", f"{instance!r} has no price; {hint}")


def _stages(given: Any, book: PriceBook) -> tuple[Stage, ...]:
    """`[{class: STANDARD, after: 0 d}, ...]`, or just the name of one class."""
    path = "tiering.classes"
    rows = [{"class": given, "after": "0 d"}] if isinstance(given, str) else given
    if not isinstance(rows, list):
        raise InvalidScenario(path, "a list of {class: NAME, after: AGE}, or one NAME")
    return tuple(_stage(row, book, path=f"{path}[{at}]") for at, row in enumerate(rows))


def _stage(given: Any, book: PriceBook, *, path: str) -> Stage:
    row = _mapping(given, path=path)
    _check_keys(row, {"class", "after"}, path=path)
    name = str(row.get("class", ""))
    if name not in book.classes:
        raise InvalidScenario(
            f"{path}.class", f"{name!r} is unknown; {nearest(name, book.classes)}"
        )
    spec = _spec("tiering.local_retention")
    return Stage(
        storage_class=name, after=read_value(spec, row.get("after", "0 d"), path=f"{path}.after")
    )


def _usd(key: str, usd: Any, book: PriceBook) -> float:
    if key not in book:
        known = [each.key for each in book]
        raise InvalidScenario(f"prices.{key}", f"is unknown; {nearest(key, known)}")
    if isinstance(usd, bool) or not isinstance(usd, int | float):
        raise InvalidScenario(f"prices.{key}", f"{usd!r} is not a price in US dollars")
    return float(usd)


def _range(path: str, given: Any) -> Range:
    where = f"uncertainty.{path}"
    row = _mapping(given, path=where)
    _check_keys(row, {"low", "mode", "high", "shape"}, path=where)
    if "low" not in row or "high" not in row:
        raise InvalidScenario(where, "needs low and high")
    check_numeric(path)
    low, high = (parse_input(path, row[each]) for each in ("low", "high"))
    mode = parse_input(path, row["mode"]) if "mode" in row else (low + high) / 2
    shape = str(row.get("shape", "triangular"))
    if shape not in SHAPES:
        raise InvalidScenario(f"{where}.shape", f"{shape!r} is unknown; {nearest(shape, SHAPES)}")
    if not low <= mode <= high:
        raise InvalidScenario(where, "low <= mode <= high does not hold")
    for name, end in (("low", low), ("high", high)):
        _check_end(path, end, where=f"{where}.{name}")
    return Range(low=low, mode=mode, high=high, shape=shape)


def _check_end(path: str, end: float, *, where: str) -> None:
    """A range holds only what the input itself may be."""
    if path.startswith("prices."):
        check_price(end, path=where)
    else:
        check_value(_spec(path), end, path=where)


def _mapping(given: Any, *, path: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidScenario(path, f"{given!r} is not a set of key: value")
    return given


def _check_keys(given: Mapping[str, Any], known: set[str], *, path: str) -> None:
    for key in given:
        if key not in known:
            where = f"{path}.{key}" if path else str(key)
            raise InvalidScenario(where, f"unknown key; {nearest(str(key), known)}")


def _spec(path: str) -> Spec:
    """The spec of an input such as `workload.write`."""
    section, _, name = path.partition(".")
    if section not in SECTIONS:
        raise InvalidScenario(path, f"unknown input; {nearest(section, {*SECTIONS, 'prices'})}")
    known = {each.name: each for each in fields(SECTIONS[section]) if "spec" in each.metadata}
    if name not in known:
        raise InvalidScenario(path, f"unknown input; {nearest(name, known)}")
    return spec_of(known[name])


def kind_of(path: str) -> Kind:
    return _spec(path).kind


def bounds_of(path: str) -> tuple[float, float]:
    """The least and the most that an input may be."""
    if path.startswith("prices."):
        return 0.0, math.inf
    spec = _spec(path)
    return spec.low, spec.high


def check_numeric(path: str) -> None:
    """Refuses an input that has no more and less."""
    if not path.startswith("prices.") and kind_of(path) not in NUMERIC:
        raise InvalidScenario(path, "is not a number, so it has no range")


def inputs() -> list[str]:
    """Paths of all numeric inputs, prices aside."""
    return [
        f"{section}.{each.name}"
        for section, kind in SECTIONS.items()
        for each in fields(kind)
        if "spec" in each.metadata and spec_of(each).kind in NUMERIC
    ]


def parse_input(path: str, given: Any) -> Any:
    """A value for an input, from text or YAML, as `--set workload.write=30MB/s` gives it."""
    if path.startswith("prices."):
        return _usd(path.removeprefix("prices."), _plain(given), default_book())
    if path == "tiering.classes":
        return _stages(_plain(given), default_book())
    spec = _spec(path)
    return read_value(spec, _plain(given) if isinstance(given, str) else given, path=path)


def _plain(given: Any) -> Any:
    return yaml.safe_load(given) if isinstance(given, str) else given


def show_input(path: str, value: float) -> str:
    """An input as a person would write it."""
    if path.startswith("prices."):
        return f"${value:g}"
    text = shown(_spec(path), value)
    return text if isinstance(text, str) else f"{text:.6g}"


def show_input_briefly(path: str, value: float) -> str:
    """Four digits, in the unit that the exact text has."""
    text = show_input(path, value)
    if text.startswith("$"):
        return f"${_plain_number(value)}"
    if text.endswith("B/s"):
        return f"{brief_size(value)}/s"
    if text.endswith("B"):
        return brief_size(value)
    return brief_duration(value) if text[-1:].isalpha() else number(value)


def _plain_number(value: float) -> str:
    """Four digits, never as a power of ten: $10,800 and $0.0000004."""
    text = number(value)
    return format(Decimal(text), "f") if "e" in text else text


def get_input(of: Scenario, path: str, *, book: PriceBook | None = None) -> Any:
    """Prices that the scenario does not have are those of the book."""
    section, _, name = path.partition(".")
    if section == "prices":
        known = of.prices.get(name)
        return (book or default_book())[name].value if known is None else known
    if path != "tiering.classes":
        _spec(path)
    return getattr(getattr(of, section), name)


def with_input(of: Scenario, path: str, value: Any, *, book: PriceBook | None = None) -> Scenario:
    """The scenario with one input changed, by its path. `book` says what regions and instances
    there are."""
    section, _, name = path.partition(".")
    if section == "prices":
        return replace(of, prices={**of.prices, name: value})
    if path != "tiering.classes":
        check_value(_spec(path), value, path=path)
    changed: Any = replace(getattr(of, section), **{name: value})
    if path == "cluster.instance":
        _check_instance(value, book or default_book())
    if path == "billing.region":
        _check_region(value, book or default_book())
    return replace(of, **{section: changed})


def as_dict(of: Scenario) -> dict[str, Any]:
    """Plain values, units included: what YAML and JSON hold."""
    out: dict[str, Any] = {"name": of.name}
    for name in SECTIONS:
        out[name] = _section_dict(getattr(of, name))
    if of.prices:
        out["prices"] = dict(of.prices)
    if of.uncertainty:
        out["uncertainty"] = {path: _range_dict(path, row) for path, row in of.uncertainty.items()}
    return out


def _section_dict(section: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for each in fields(section):
        value = getattr(section, each.name)
        if each.name == "classes":
            out["classes"] = [
                {"class": stage.storage_class, "after": duration_text(stage.after)}
                for stage in value
            ]
        else:
            out[each.name] = shown(spec_of(each), value)
    return out


def _range_dict(path: str, row: Range) -> dict[str, Any]:
    price = path.startswith("prices.")
    ends = {name: getattr(row, name) for name in ("low", "mode", "high")}
    written = ends if price else {name: shown(_spec(path), end) for name, end in ends.items()}
    return {**written, "shape": row.shape}
