"""Slices that cannot hold a row of interest, by filters that Spark pushes down. Pure.

Only leaves out: Spark evaluates every filter again. Understood are comparisons of `offset`,
`partition`, `topic` and, for Parquet files, `timestamp` with a value; all else is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from tierlog.spark.plan import ParquetSlice

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql.datasource import Filter

    from tierlog.spark.plan import Slice


@dataclass(frozen=True, slots=True)
class Within:
    """Values of one column that may pass; inclusive, None for no bound."""

    least: Any = None
    most: Any = None

    def overlaps(self, least: Any, most: Any) -> bool:
        return (self.least is None or most >= self.least) and (
            self.most is None or least <= self.most
        )


def pruned(slices: Iterable[Slice], filters: Sequence[Filter]) -> list[Slice]:
    ranges = [(_column(one), within) for one in filters if (within := _range(one)) is not None]
    return [one for one in slices if all(_may_hold(one, name, each) for name, each in ranges)]


def _column(one: Filter) -> str:
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    return attribute[0] if len(attribute) == 1 else ""


def _range(one: Filter) -> Within | None:
    if isinstance(one, EqualTo):
        return Within(one.value, one.value)
    if isinstance(one, In) and one.value:
        return Within(min(one.value), max(one.value))
    if isinstance(one, GreaterThan | GreaterThanOrEqual):
        return Within(least=one.value)
    if isinstance(one, LessThan | LessThanOrEqual):
        return Within(most=one.value)
    return None


def _may_hold(one: Slice, column: str, within: Within) -> bool:
    if column == "offset":
        return within.overlaps(one.start, one.end - 1)
    if column == "partition":
        return within.overlaps(one.name.partition, one.name.partition)
    if column == "topic":
        return within.overlaps(one.name.topic, one.name.topic)
    if column == "timestamp" and isinstance(one, ParquetSlice) and one.file.times is not None:
        return _as_ms(within).overlaps(*one.file.times)
    return True


def _as_ms(within: Within) -> Within:
    return Within(*(None if each is None else _ms(each) for each in (within.least, within.most)))


def _ms(moment: datetime) -> float:
    """Spark hands over moments of UTC, with or without saying so."""
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return zoned.timestamp() * 1000
