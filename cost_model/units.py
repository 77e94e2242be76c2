"""Units: what a person writes and what a line of a bill counts.

At the edge, sizes, rates and durations are text with a unit ("128 MiB", "30 MB/s", "7 d"); a bare
number is refused, since GB and GiB differ by 7.4 %. Inside, they are floats: bytes, bytes a second,
seconds. On a bill, every number is a `Quantity` with a `Unit`, and meets only a price per that
same unit. A month is not a duration: it has as many hours as the scenario's billing says.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from cost_model.errors import CostError, UnitMismatch, nearest

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
YEAR = 365 * DAY
GB, GIB, MIB, KIB, TB = 1e9, 2.0**30, 2.0**20, 2.0**10, 1e12

SIZES: dict[str, float] = {"B": 1.0}
for _power, _letter in enumerate("KMGTPE", start=1):
    SIZES[f"{_letter}B"] = 1000.0**_power
    SIZES[f"{_letter}iB"] = 1024.0**_power
SIZES["kB"] = SIZES["KB"]

DURATIONS: dict[str, float] = {
    "ms": 0.001,
    **dict.fromkeys(("s", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), MINUTE),
    **dict.fromkeys(("h", "hour", "hours"), HOUR),
    **dict.fromkeys(("d", "day", "days"), DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * DAY),
    **dict.fromkeys(("y", "year", "years"), YEAR),
}

_NUMBER_AND_UNIT = re.compile(
    r"\s*([+-]?[0-9][0-9_,]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*(.*?)\s*"
)


class Unit(StrEnum):
    """What a line counts. Two units are the same only if they are the same word."""

    GB = "GB"
    GB_MONTH = "GB-month"
    GB_HOUR = "GB-hour"
    GIB = "GiB"
    GIB_MONTH = "GiB-month"
    TB = "TB"
    REQUESTS_1K = "1k requests"
    REQUESTS_10K = "10k requests"
    OBJECT_MONTHS_1K = "1k object-months"
    IOPS_MONTH = "IOPS-month"
    MBPS_MONTH = "MB/s-month"
    INSTANCE_HOUR = "instance-hour"
    GATEWAY_HOUR = "gateway-hour"
    CLUSTER_HOUR = "cluster-hour"
    PARTITION_HOUR = "partition-hour"
    VCPU_HOUR = "vCPU-hour"
    DPU_HOUR = "DPU-hour"
    KWH = "kWh"
    NODE = "node"
    MONTH = "month"


@dataclass(frozen=True, slots=True)
class Quantity:
    """So much of a unit. Only like units add up."""

    value: float
    unit: Unit

    def __add__(self, other: "Quantity") -> "Quantity":
        if other.unit is not self.unit:
            raise UnitMismatch(f"{self.unit} and {other.unit} do not add up")
        return Quantity(self.value + other.value, self.unit)


def split(text: str, *, example: str) -> tuple[float, str]:
    """Number and unit of a text."""
    found = _NUMBER_AND_UNIT.fullmatch(text)
    if found is None:
        raise CostError(f"{text!r} is not a number with a unit, such as {example}")
    return float(found[1].replace("_", "").replace(",", "")), found[2]


def parse_size(text: str) -> float:
    """Bytes."""
    number, unit = split(text, example="128 MiB")
    return number * _factor(unit, SIZES, text=text, example="128 MiB or 1 GB")


def parse_duration(text: str) -> float:
    """Seconds."""
    number, unit = split(text, example="7 d")
    if unit in {"mo", "month", "months"}:
        raise CostError(f"{text!r}: months differ in length; write it in days, hours or years")
    return number * _factor(unit, DURATIONS, text=text, example="7 d or 730 h")


def parse_rate(text: str) -> float:
    """Bytes a second."""
    number, unit = split(text, example="30 MB/s")
    size, slash, time = (part.strip() for part in unit.partition("/"))
    example = "30 MB/s or 500 GB/d"
    if not slash:
        raise CostError(f"{text!r} is not a rate, such as {example}")
    factor = _factor(size, SIZES, text=text, example=example)
    return number * factor / _factor(time, DURATIONS, text=text, example=example)


def _factor(unit: str, table: dict[str, float], *, text: str, example: str) -> float:
    if not unit:
        raise CostError(f"{text!r} has no unit; write for example {example}")
    if unit not in table:
        raise CostError(f"{text!r}: unknown unit {unit!r}; {nearest(unit, table)}")
    return table[unit]


def size_text(size: float) -> str:
    """Parses back to the same number."""
    return _exact(size, _SIZE_SCALE)


def rate_text(rate: float) -> str:
    return f"{size_text(rate)}/s"


def duration_text(seconds: float) -> str:
    return _exact(seconds, _TIME_SCALE)


def brief_size(size: float) -> str:
    """For reading, not for reckoning: binary where that is round, else four decimal digits."""
    exact = size_text(size)
    if "i" in exact and len(exact) <= len("102.4 MiB"):
        return exact
    name, factor = next(
        ((name, factor) for name, factor in _SIZE_SCALE if size >= factor and "i" not in name),
        _SIZE_SCALE[-1],
    )
    return f"{size / factor:,.4g} {name}"


def brief_duration(seconds: float) -> str:
    if 0 < seconds < 1:
        return f"{seconds * 1000:.4g} ms"
    name, factor = next(
        ((name, factor) for name, factor in _TIME_SCALE if seconds >= factor), _TIME_SCALE[-1]
    )
    return f"{seconds / factor:,.4g} {name}"


_SIZE_NAMES = ["PiB", "PB", "TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB", "B"]
_SIZE_SCALE = [(name, SIZES[name]) for name in _SIZE_NAMES]
_TIME_SCALE = [("y", YEAR), ("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", 1.0)]


def _exact(value: float, scale: list[tuple[str, float]]) -> str:
    """In the largest unit that needs few digits and loses nothing."""
    for name, factor in scale:
        text = f"{value / factor:.6g}"
        if value >= factor and "e" not in text and float(text) * factor == value:
            return f"{text} {name}"
    return f"{value!r} {scale[-1][0]}" if value else f"0 {scale[-1][0]}"
