"""Spark on cold history: the folder store of this machine, `local[2]`, a node on the same cores.

- The same Parquet files by `tierlog.spark.read` and by plain `spark.read.parquet`. Both are timed
  from nothing to the last row. Ours finds its files in the manifests meanwhile; plain Spark knows
  paths and schema before. That plan, files, bytes and rows are the same is checked before anything
  is timed, and fails if they are not.
- A backfill of the same history by `tierlog.spark.read` against Spark's Kafka source, reading it
  from the broker: all columns, and an aggregate over key and timestamp. The same rows, checked.
- An offset range of 1 % over a table of at least 200 row groups: bytes that Spark read.
- `format("tierlog")` beside them, and how fast the history was converted.
- Produce by the clock while a node converts (`sparkbeside`).

Every reader has had an untimed pass before its first timed one; Kafka's source meets a node whose
cache has what fits. `--option rounds=N` has fewer rounds than the usual 7; `--option mb=N` another
amount of history, in MiB; `--option part=N` runs one part alone: 1 native read, 2 backfill,
3 range, 4 `format("tierlog")`, 5 produce while converting.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from benchmarks import sparkbeside
from benchmarks.bench_table import PEER
from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size, Unavailable
from benchmarks.sparkstage import NARROW, Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Frame: TypeAlias = "Callable[[], DataFrame]"
Work: TypeAlias = "Callable[[DataFrame], None]"

PLAIN, OURS, KAFKA, SOURCE = (
    "spark.read.parquet",
    "tierlog.spark.read",
    "Kafka source, from the broker",
    'format("tierlog")',
)
SPEED = "MB/s of keys and values"
PER_CORE = "MB/s of keys and values, a core"
STANDS = "ms until the frame stands"
SHARE = "share of the bytes"
ROUNDS = 7
GROUPS_MIN = 200


def comparisons(size: Size) -> Iterator[Gauge]:
    wished = int(size.options.get("rounds", ROUNDS))
    for each in gauges(size):
        yield replace(each, rounds=min(each.rounds or wished, wished))


def gauges(size: Size) -> Iterator[Gauge]:
    part = int(size.options.get("part", 0))
    if part in (0, 1, 2, 3, 4):
        yield from of_spark(size, part)
    if part in (0, 5):
        yield from sparkbeside.gauges(size)


def of_spark(size: Size, part: int) -> Iterator[Gauge]:
    try:
        import pyspark  # noqa: F401  (only whether it is there)

        from tests.spark.session import jars, session
    except ImportError as missing:
        raise Unavailable("Spark is not installed: make install") from missing
    if not jars():
        raise Unavailable("Spark's Kafka source is missing: tests/spark/install.sh gets it")
    from tests.compat.node import running

    with ExitStack() as stack:
        node = stack.enter_context(running(size.scratch))
        memory = {"spark.driver.memory": "4g"}
        stage = Stage(node, stack.enter_context(session(size.scratch, **memory)), size)
        if part in (0, 1, 2, 4):
            stage.fill_history()
            yield from of_history(stage, part)
        if part in (0, 3):
            stage.fill_narrow()
            yield narrow(stage, size)


def of_history(stage: Stage, part: int) -> Iterator[Gauge]:
    if part in (0, 1):
        require_same_read(stage)
        yield converting(stage)
        yield native(stage)
    if part in (0, 2):
        require_same_rows(stage.kafka(), stage.ours())
        yield backfill(stage, "backfill, all columns", everything, hold=2.0)
        yield backfill(stage, "backfill, latest time of each key", aggregate, hold=5.0)
    if part in (0, 4):
        require_same_rows(stage.source(), stage.ours())
        yield by_source(stage)


# What is done with rows


def everything(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def aggregate(frame: "DataFrame") -> None:
    from pyspark.sql import functions as f

    frame.groupBy("key").agg(f.max("timestamp")).agg(f.count("*")).collect()


# What is measured


def timed(stage: Stage, frame: Frame, work: Work) -> Callable[[], Figures]:
    """From nothing to the last row: whoever has to look for its files does it here."""

    def figures() -> Figures:
        began = time.perf_counter()
        made = frame()
        stood = time.perf_counter()
        work(made)
        return {
            SPEED: stage.bytes / (time.perf_counter() - began) / 1e6,
            STANDS: (stood - began) * 1000,
        }

    return figures


def native(stage: Stage) -> Gauge:
    return Gauge(
        name="the files of a table, all columns",
        variants={
            PLAIN: timed(stage, stage.plain, everything),
            OURS: timed(stage, stage.ours, everything),
        },
        promises={SPEED: Promise(hold=0.8, aim=0.95, is_speed=True), STANDS: Promise()},
        baseline=PLAIN,
        note="same plan, files, bytes and rows, checked before; " + size_of(stage),
    )


def converting(stage: Stage) -> Gauge:
    """Once: the job that made the table, by tasks that had made a small one before."""
    cores = min(2, os.cpu_count() or 1)
    return Gauge(
        name="`tierlog spark convert` of the history",
        variants={
            "tierlog": lambda: {PER_CORE: stage.bytes / stage.convert_s / cores / 1e6},
        },
        promises={PER_CORE: Promise(is_speed=True)},
        rounds=1,
        note=f"{PEER}; {size_of(stage)}",
    )


def by_source(stage: Stage) -> Gauge:
    return Gauge(
        name="the same, without a jar",
        variants={
            PLAIN: timed(stage, stage.plain, everything),
            SOURCE: timed(stage, stage.source, everything),
        },
        promises={SPEED: Promise(is_speed=True)},
        baseline=PLAIN,
    )


def backfill(stage: Stage, name: str, work: Work, *, hold: float) -> Gauge:
    return Gauge(
        name=name,
        variants={
            KAFKA: timed(stage, stage.kafka, work),
            OURS: timed(stage, stage.ours, work),
        },
        promises={SPEED: Promise(hold=hold, is_speed=True)},
        baseline=KAFKA,
        note="the same rows, checked before; " + size_of(stage),
    )


def size_of(stage: Stage) -> str:
    return f"{stage.bytes / 1e6:,.0f} MB, {stage.records:,} rows in {stage.files} files"


def narrow(stage: Stage, size: Size) -> Gauge:
    from tests.spark.counting import input_bytes

    groups = stage.row_groups(NARROW)
    if groups < GROUPS_MIN and size.is_full:
        raise AssertionError(f"{groups} row groups are too few for this measurement")
    each, first = stage.narrow_records // 100, stage.narrow_records // 2
    bounds = {
        "startingOffsets": json.dumps({NARROW: {"0": first}}),
        "endingOffsets": json.dumps({NARROW: {"0": first + each}}),
    }

    def read(**options: str) -> int:
        before = input_bytes(stage.spark)
        everything(stage.ours(NARROW, **options))
        return input_bytes(stage.spark) - before

    def share() -> Figures:
        return {SHARE: read(**bounds) / read()}

    if stage.ours(NARROW, **bounds).count() != each:
        raise AssertionError("a range of offsets has other rows than it should")
    return Gauge(
        name=f"1 % of the offsets of {groups} row groups",
        variants={OURS: share},
        promises={SHARE: Promise(hold=0.02)},
        rounds=3,
        note="as Spark counts its input; all columns",
    )


# What must be the same, before anything is timed


def require_same_read(stage: Stage) -> None:
    from tests.spark.counting import input_bytes

    one, other = stage.ours(), stage.plain()
    if sorted(one.inputFiles()) != sorted(other.inputFiles()):
        raise AssertionError("tierlog.spark.read and plain Spark read other files")
    plans = [plan_of(each) for each in (one, other)]
    if plans[0] != plans[1]:
        raise AssertionError(f"the plans differ:\n{plans[0]}\n{plans[1]}")
    seen = [input_bytes(stage.spark)]
    for each in (one, other):
        everything(each)
        seen.append(input_bytes(stage.spark))
    if seen[1] - seen[0] != seen[2] - seen[1]:
        raise AssertionError(f"other bytes: {seen[1] - seen[0]} and {seen[2] - seen[1]}")
    require_same_rows(one, other)


def plan_of(frame: "DataFrame") -> str:
    """Without the numbers that Spark gives to columns anew in every plan."""
    text = frame._jdf.queryExecution().executedPlan().toString()
    return re.sub(r"#\d+L?", "", text)


def require_same_rows(one: "DataFrame", other: "DataFrame") -> None:
    """By a sum over a hash of each row; also an untimed pass of both."""
    sums = [hashed(each) for each in (one, other)]
    if sums[0] != sums[1] or not sums[0][0]:
        raise AssertionError(f"other rows: {sums[0]} and {sums[1]}")


def hashed(frame: "DataFrame") -> tuple[int, int]:
    from pyspark.sql import functions as f

    # Of 64 bits: shifted, so that some millions of them fit a sum.
    each = f.shiftright(f.xxhash64(*frame.columns), 24)
    (row,) = frame.agg(f.count("*"), f.sum(each)).collect()
    return int(row[0]), int(row[1] or 0)
