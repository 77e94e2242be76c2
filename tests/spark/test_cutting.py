"""Boundary files of many partitions: the rows of each within its bounds, and a plan in time."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.session import MARKS
from tierlog.spark.bounds import PartitionName
from tierlog.spark.options import Mode, parse_options
from tierlog.spark.plan import ParquetFile, ParquetSlice, Slice, Span
from tierlog.spark.reading import TERMS_MAX, Planned, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = MARKS
FILE_END = 10
MANY = 2000
PATIENCE_S = 60
"""To plan and to run; some seconds on a quiet machine, where 500 used to end with an error."""


def planned(folder: Path, spans: list[Span]) -> Planned:
    """One file with ten offsets of every partition, of which each span is a part."""
    names = [one.name for one in spans for _ in range(FILE_END)]
    count = len(names)
    table = pa.table(
        {
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array([b"v"] * count),
            "topic": [one.topic for one in names],
            "partition": pa.array([one.partition for one in names], pa.int32()),
            "offset": [*range(FILE_END)] * len(spans),
            "timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * count, pa.int32()),
        }
    )
    pq.write_table(table, folder / "file")
    file = ParquetFile(key="file", start=0, end=FILE_END, rows=count, size=1)
    slices: list[Slice] = [
        ParquetSlice(name=one.name, start=one.start, end=one.end, file=file) for one in spans
    ]
    options = parse_options({"store": f"file://{folder}", "subscribe": "a,b"}, mode=Mode.BATCH)
    return Planned(options=options, spans=spans, slices=slices, gets=0)


def spans(count: int) -> list[Span]:
    return [
        Span(
            name=PartitionName("ab"[number % 2], number // 2),
            start=1 + number % 4,
            end=5 + number % 5,
            bucket_end=FILE_END,
        )
        for number in range(count)
    ]


def plan_of(frame: "DataFrame") -> str:
    return str(frame._jdf.queryExecution().executedPlan())


@pytest.fixture(autouse=True)
def whole_plans(spark: "SparkSession") -> Iterator[None]:
    """Filters are cut off after a hundred letters otherwise."""
    name = "spark.sql.maxMetadataStringLength"
    spark.conf.set(name, "1000000")
    yield
    spark.conf.unset(name)


@pytest.mark.parametrize(
    ("count", "joins"), [(1, False), (TERMS_MAX, False), (TERMS_MAX + 1, True), (MANY, True)]
)
def test_bounds_of_many_partitions_are_kept_and_soon_planned(
    spark: "SparkSession", tmp_path: Path, count: int, joins: bool
) -> None:
    some = spans(count)
    begun = time.monotonic()
    frame = frame_of(spark, planned(tmp_path, some)).select("topic", "partition", "offset")
    plan = plan_of(frame)
    found = [(row.topic, row.partition, row.offset) for row in frame.collect()]
    assert time.monotonic() - begun < PATIENCE_S
    assert sorted(found) == sorted(
        (*one.name, offset) for one in some for offset in range(one.start, one.end)
    )
    assert ("BroadcastHashJoin" in plan) is joins
    assert "PushedFilters: [" in plan
    assert "GreaterThanOrEqual(offset," in plan
    assert "struct<topic:string,partition:int,offset:bigint>" in plan  # Other columns stay.
