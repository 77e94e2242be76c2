"""Kinds of scenario fields: how a value is written, read, checked and shown.

Each field of a scenario says its kind, its bounds, why its default is what it is and where that
comes from; reading, error messages and the table of assumptions in the docs are made from this.
"""

import math
from dataclasses import Field, dataclass, field
from enum import StrEnum
from typing import Any

from cost_model import units
from cost_model.arith import every, is_array
from cost_model.errors import CostError, InvalidScenario, nearest


class Kind(StrEnum):
    SIZE = "size"
    RATE = "rate"
    DURATION = "duration"
    NUMBER = "number"
    COUNT = "whole number"
    FLAG = "true or false"
    CHOICE = "word"


EXAMPLES = {
    Kind.SIZE: "128 MiB",
    Kind.RATE: "30 MB/s",
    Kind.DURATION: "7 d",
    Kind.NUMBER: "1.5",
    Kind.COUNT: "3",
    Kind.FLAG: "true",
}
PARSERS = {
    Kind.SIZE: units.parse_size,
    Kind.RATE: units.parse_rate,
    Kind.DURATION: units.parse_duration,
}
TEXTS = {
    Kind.SIZE: units.size_text,
    Kind.RATE: units.rate_text,
    Kind.DURATION: units.duration_text,
}
LEAST = {Kind.SIZE: 1.0, Kind.RATE: 0.001, Kind.DURATION: 0.001, Kind.NUMBER: 1e-6, Kind.COUNT: 1.0}
"""The smallest value of an input that must not be zero: a byte, a byte in a quarter of an hour."""
MOST = {
    Kind.SIZE: 1e21,
    Kind.RATE: 1e15,
    Kind.DURATION: 1000 * units.YEAR,
    Kind.NUMBER: 1e12,
    Kind.COUNT: 1e9,
}
"""Beyond a zettabyte, a petabyte a second and a thousand years, a slip of the pen is likelier."""
NUMERIC = frozenset(MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What is known of a field beside its name and default."""

    kind: Kind
    why: str
    low: float = 0.0
    high: float = math.inf
    choices: tuple[str, ...] = ()
    optional: bool = False


def setting(
    kind: Kind,
    default: Any,
    why: str,
    *,
    low: float = 0.0,
    high: float = math.inf,
    above: bool = False,
    choices: tuple[str, ...] = (),
) -> Any:
    """A dataclass field with its spec. A default of None: worked out from other fields.

    `above`: zero is refused, and so is what is nearly zero.
    """
    spec = Spec(
        kind=kind,
        why=why,
        low=LEAST[kind] if above else low,
        high=min(high, MOST.get(kind, math.inf)),
        choices=choices,
        optional=default is None,
    )
    return field(default=default, metadata={"spec": spec})


def spec_of(a_field: "Field[Any]") -> Spec:
    spec = a_field.metadata["spec"]
    assert isinstance(spec, Spec)
    return spec


def read_value(spec: Spec, given: Any, *, path: str) -> Any:
    """From YAML or JSON to the value that formulas use."""
    if given is None and spec.optional:
        return None
    if spec.kind in PARSERS:
        return _read_with_unit(spec, given, path=path)
    if spec.kind is Kind.FLAG:
        if not isinstance(given, bool):
            raise InvalidScenario(path, f"{given!r} is neither true nor false")
        return given
    if spec.kind is Kind.CHOICE:
        return str(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidScenario(path, f"{given!r} is not a {spec.kind}, such as {_example(spec)}")
    return float(given)


def _read_with_unit(spec: Spec, given: Any, *, path: str) -> float:
    if not isinstance(given, str):
        raise InvalidScenario(
            path, f"{given!r} has no unit; write a {spec.kind} such as {_example(spec)}"
        )
    try:
        return PARSERS[spec.kind](given)
    except CostError as error:
        raise InvalidScenario(path, str(error)) from None


def _example(spec: Spec) -> str:
    return EXAMPLES[spec.kind]


def check_value(spec: Spec, value: Any, *, path: str) -> None:
    """Bounds, finiteness, known words."""
    if value is None and spec.optional:
        return
    if spec.kind is Kind.CHOICE:
        if spec.choices and value not in spec.choices:
            raise InvalidScenario(path, f"{value!r} is unknown; {nearest(value, spec.choices)}")
    elif spec.kind in NUMERIC:
        _check_number(spec, value, path=path)
    elif not isinstance(value, bool):
        raise InvalidScenario(path, f"{value!r} is neither true nor false")


def _check_number(spec: Spec, value: Any, *, path: str) -> None:
    if not is_array(value) and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidScenario(path, f"{value!r} is not a number")
    # NaN fails every comparison, so that it is refused here as well.
    if not every((value >= spec.low) & (value <= spec.high)):
        raise InvalidScenario(path, f"{shown(spec, value)} is out of bounds; {_bounds(spec)}")
    if spec.kind is Kind.COUNT and not is_array(value) and value != int(value):
        raise InvalidScenario(path, f"{value!r} is not a whole number")


def _bounds(spec: Spec) -> str:
    return f"at least {shown(spec, spec.low)} and at most {shown(spec, spec.high)}"


def shown(spec: Spec, value: Any) -> Any:
    """As a person would write it; the inverse of `read_value`."""
    if value is None:
        return value
    if is_array(value):
        return f"{shown(spec, float(value.min()))} to {shown(spec, float(value.max()))}"
    if spec.kind in TEXTS and math.isfinite(value):
        text = TEXTS[spec.kind](abs(value))
        return f"-{text}" if value < 0 else text
    if spec.kind in NUMERIC:
        return int(value) if math.isfinite(value) and value == int(value) else float(value)
    return value
