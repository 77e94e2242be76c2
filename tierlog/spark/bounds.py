"""Where a read begins and ends, as the query says it: before anybody has looked at a partition.

Offsets in JSON have Kafka's two signs: -2 is the earliest, -1 the latest.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from tierlog.spark.errors import OptionRefused

LATEST, EARLIEST = -1, -2
"""Among offsets."""
NUMBER_MAX = 2**63 - 1


class PartitionName(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Edge(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Offsets:
    """One for each partition."""

    by: Mapping[PartitionName, int]


@dataclass(frozen=True, slots=True)
class Times:
    """The first record at or after a time, for each partition."""

    by: Mapping[PartitionName, int]


@dataclass(frozen=True, slots=True)
class Time:
    """The same for all partitions."""

    ms: int


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same offset for all partitions, or the nearest that each has: for jobs, not for Kafka's
    options."""

    offset: int


Bound: TypeAlias = Edge | Offsets | Times | Time | Everywhere


def parse_partitions(option: str, text: str) -> dict[str, tuple[int, ...]]:
    """`{"t": [0, 1]}`."""
    found: dict[str, tuple[int, ...]] = {}
    for topic, value in _object(option, text, '{"orders": [0, 1]}').items():
        if not isinstance(value, list) or not all(_is_whole(one) for one in value) or not value:
            raise _refused(option, text, f"'{topic}' needs a list of partition numbers")
        found[topic] = tuple(sorted(set(value)))
    if not found:
        raise _refused(option, text, "it names no partition")
    return found


def parse_offsets(option: str, text: str) -> Offsets:
    """`{"t": {"0": 23, "1": -2}}`."""
    return Offsets(_numbers(option, text, lambda number: number >= EARLIEST, "offsets"))


def parse_times(option: str, text: str) -> Times:
    """`{"t": {"0": 1700000000000}}`."""
    return Times(_numbers(option, text, lambda number: number >= 0, "milliseconds since 1970"))


def parse_time(option: str, text: str) -> Time:
    return Time(parse_number(option, text, least=0, what="milliseconds since 1970"))


def parse_number(option: str, text: str, *, least: int, what: str) -> int:
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit()) or not least <= int(plain) <= NUMBER_MAX:
        raise OptionRefused(
            option, f"{option} is '{text}'; it must be a whole number from {least} on: {what}"
        )
    return int(plain)


UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration(option: str, text: str) -> int:
    """In milliseconds. As Spark writes it: 500ms, 30s, 15m; a plain number is milliseconds."""
    found = re.fullmatch(r"([0-9]+)\s*([a-z]*)", text.strip().lower(), re.ASCII)
    if found is None or found[2] not in UNITS_MS or int(found[1]) > NUMBER_MAX:
        raise OptionRefused(option, f"{option} is '{text}'; write it as 500ms, 30s, 15m, 1h or 1d")
    return int(found[1]) * UNITS_MS[found[2]]


def parse_flag(option: str, text: str) -> bool:
    found = {"true": True, "false": False}.get(text.strip().lower())
    if found is None:
        raise OptionRefused(option, f"{option} is '{text}'; it must be true or false")
    return found


def as_json(offsets: Mapping[PartitionName, int]) -> str:
    """As Spark's Kafka source writes offsets into a checkpoint."""
    return json.dumps(nested(offsets), separators=(",", ":"))


def nested(offsets: Mapping[PartitionName, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name in sorted(offsets):
        found.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    return found


def flattened(value: Mapping[str, Mapping[str, int]]) -> dict[PartitionName, int]:
    return {
        PartitionName(topic, int(partition)): int(offset)
        for topic, partitions in value.items()
        for partition, offset in partitions.items()
    }


def _numbers(
    option: str, text: str, is_sane: Callable[[int], bool], what: str
) -> dict[PartitionName, int]:
    example = '{"orders": {"0": 23, "1": 42}}'
    found: dict[PartitionName, int] = {}
    for topic, value in _object(option, text, example).items():
        if not isinstance(value, dict):
            raise _refused(option, text, f"'{topic}' needs an object of partitions and {what}")
        for partition, number in value.items():
            if not (partition.isascii() and partition.isdigit()):
                raise _refused(option, text, f"'{partition}' is no partition of '{topic}'")
            if not _is_whole(number, least=EARLIEST) or not is_sane(number):
                raise _refused(option, text, f"{topic}-{partition} has {number!r}: not {what}")
            found[PartitionName(topic, int(partition))] = number
    if not found:
        raise _refused(option, text, "it names no partition")
    return found


def _object(option: str, text: str, example: str) -> dict[str, object]:
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise _refused(option, text, f"it must be JSON as {example}: {error}") from None
    if not isinstance(value, dict):
        raise _refused(option, text, f"it must be JSON as {example}")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _is_whole(value: object, least: int = 0) -> bool:
    return type(value) is int and least <= value <= NUMBER_MAX


def _refused(option: str, text: str, sentence: str) -> OptionRefused:
    return OptionRefused(option, f"{option} is '{text}'; {sentence}")
