"""Spark on cold history: the folder store of this machine, `local[2]`, a node on the same cores.

- The same Parquet files by `tierlog.spark.read` and by plain `spark.read.parquet`: same plan, same
  files, same bytes (it fails otherwise), and time.
- A backfill of the same history by `tierlog.spark.read` against Spark's Kafka source, reading it
  from the broker: all columns, and an aggregate over key and timestamp.
- An offset range of 1 % over a table of at least 200 row groups: bytes that Spark read.
- `format("tierlog")` beside them.

`--option rounds=N` has fewer rounds than usual; `--option mb=N` another amount of values.
"""

import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.gauge import Figures, Gauge, Promise
from benchmarks.harness import Size, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.compat.node import RunningNode

TOPIC = "history"
PARTITIONS = 2
RECORDS_A_BATCH = 500
VALUE_BYTES = 300
PLAIN, OURS, KAFKA, SOURCE = (
    "spark.read.parquet",
    "tierlog.spark.read",
    "Kafka source, from the broker",
    'format("tierlog")',
)
SPEED = "MB/s of keys and values"
GROUPS_MIN = 200
FULL_MB = 256
"""Of values: some seconds of work for the slowest."""


def comparisons(size: Size) -> Iterator[Gauge]:
    wished = int(size.options.get("rounds", min(size.rounds, 7)))
    for each in gauges(size):
        yield replace(each, rounds=min(each.rounds or wished, wished))


def gauges(size: Size) -> Iterator[Gauge]:
    try:
        import pyspark  # noqa: F401  (only whether it is there)

        from tests.spark.session import jars, session
    except ImportError as missing:
        raise Unavailable("Spark is not installed: make install") from missing
    if not jars():
        raise Unavailable("Spark's Kafka source is missing: tests/spark/install.sh gets it")
    from tests.compat.node import running

    wanted = int(size.options.get("mb", FULL_MB if size.is_full else 2)) * 1_000_000
    with ExitStack() as stack:
        node = stack.enter_context(running(size.scratch))
        stage = Stage(node, wanted)
        stage.spark = stack.enter_context(session(size.scratch))
        stage.convert()
        yield stage.native()
        yield stage.by_source()
        yield stage.backfill("backfill, all columns", everything, hold=2.0)
        yield stage.backfill("backfill, latest time of each key", aggregate, hold=5.0)
        yield stage.narrow()


def everything(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def aggregate(frame: "DataFrame") -> None:
    from pyspark.sql import functions as f

    frame.groupBy("key").agg(f.max("timestamp")).agg(f.count("*")).collect()


class Stage:
    """A topic whose whole history is cold, and the table of it."""

    spark: "SparkSession"

    def __init__(self, node: "RunningNode", bytes_wanted: int) -> None:
        from tests.compat.cold import make_cold
        from tests.compat.drivers.confluent import Confluent

        self.node = node
        self.store = f"file://{node.data}-store"
        # Segments small enough for 400 of them, and the table left to the job: the values shrink to
        # a sixth. A range of 1 % touches one or two more of each partition than it fills.
        segment = max(1024, bytes_wanted // (GROUPS_MIN * 12))
        settings = {"segment.bytes": str(segment), "tierlog.table.enable": "false"}
        Confluent().admin(node.address).create(TOPIC, PARTITIONS, **settings)
        self.bytes = asyncio.run(self._fill(bytes_wanted))
        make_cold(node, TOPIC)

    async def _fill(self, bytes_wanted: int) -> int:
        from tierlog.client import Client
        from tierlog.client.values import NewRecord
        from tierlog.env import local_env
        from tierlog.records.attributes import Codec

        chance, env = random.Random(1), local_env()
        host, port = self.node.address.split(":")
        done = number = 0
        async with Client([(host, int(port))], clock=env.clock, rng=env.rng) as client:
            while done < bytes_wanted:
                records = [
                    NewRecord(event(chance), key=b"customer-%05d" % chance.randrange(5_000))
                    for _ in range(RECORDS_A_BATCH)
                ]
                await client.produce(TOPIC, number % PARTITIONS, records, codec=Codec.LZ4)
                done += sum(len(one.value or b"") + len(one.key or b"") for one in records)
                number += 1
        self.records = number * RECORDS_A_BATCH
        return done

    def convert(self) -> None:
        from tierlog.spark.converting import convert
        from tierlog.spark.stores import StorePlace
        from tierlog.table.settings import TableSettings

        # Files of one segment each: as many row groups as the range needs.
        settings = TableSettings(convert_segments_max=1)
        place = StorePlace(url=self.store)
        self.converted = convert(self.spark, place, topics=[TOPIC], settings=settings)

    # Who reads

    def ours(self, **options: str) -> "DataFrame":
        import tierlog.spark

        return tierlog.spark.read(self.spark, store=self.store, topic=TOPIC, **options)  # type: ignore[arg-type]

    def source(self) -> "DataFrame":
        options = {"store": self.store, "subscribe": TOPIC}
        return self.spark.read.format("tierlog").options(**options).load()

    def kafka(self) -> "DataFrame":
        options = {"kafka.bootstrap.servers": self.node.address, "subscribe": TOPIC}
        return self.spark.read.format("kafka").options(**options).load()

    def plain(self) -> "DataFrame":
        ours = self.ours()
        return self.spark.read.schema(ours.schema).parquet(*ours.inputFiles()).select(*ours.columns)

    def timed(self, frame: Callable[[], "DataFrame"], work: Callable[["DataFrame"], None]) -> float:
        begun = time.perf_counter()
        work(frame())
        return time.perf_counter() - begun

    def speed(
        self, frame: Callable[[], "DataFrame"], work: Callable[["DataFrame"], None]
    ) -> Callable[[], Figures]:
        return lambda: {SPEED: self.bytes / self.timed(frame, work) / 1e6}

    # What is measured

    def native(self) -> Gauge:
        same_plan(self.ours(), self.plain())
        return Gauge(
            name="the files of a table, all columns",
            variants={
                PLAIN: self.speed(self.plain, everything),
                OURS: self.speed(self.ours, everything),
            },
            promises={SPEED: Promise(hold=0.8, aim=0.95, is_speed=True)},
            baseline=PLAIN,
            note=f"same plan, files, bytes; {self.records:,} rows in {self.converted.files} files",
        )

    def by_source(self) -> Gauge:
        return Gauge(
            name="the same, without a jar",
            variants={
                PLAIN: self.speed(self.plain, everything),
                SOURCE: self.speed(self.source, everything),
            },
            promises={SPEED: Promise(is_speed=True)},
            baseline=PLAIN,
        )

    def backfill(self, name: str, work: Callable[["DataFrame"], None], *, hold: float) -> Gauge:
        return Gauge(
            name=name,
            variants={KAFKA: self.speed(self.kafka, work), OURS: self.speed(self.ours, work)},
            promises={SPEED: Promise(hold=hold, is_speed=True)},
            baseline=KAFKA,
        )

    def narrow(self) -> Gauge:
        groups = self.converted.files
        if groups < GROUPS_MIN and self.bytes >= FULL_MB * 1_000_000:
            raise AssertionError(f"{groups} row groups are too few for this measurement")
        each = self.records // PARTITIONS
        first = each // 2
        bounds = {
            "startingOffsets": json.dumps({TOPIC: {"0": first, "1": first}}),
            "endingOffsets": json.dumps(
                {TOPIC: {"0": first + each // 100, "1": first + each // 100}}
            ),
        }

        from tests.spark.counting import input_bytes

        def share() -> Figures:
            before = input_bytes(self.spark)
            everything(self.ours())
            whole = input_bytes(self.spark) - before
            everything(self.ours(**bounds))
            return {"share of the bytes": (input_bytes(self.spark) - before - whole) / whole}

        return Gauge(
            name=f"1 % of the offsets of {groups} row groups",
            variants={OURS: share},
            promises={"share of the bytes": Promise(hold=0.02)},
            rounds=3,
            note="as Spark counts its input; all columns",
        )


def event(chance: random.Random) -> bytes:
    value = {
        "id": f"{chance.getrandbits(96):024x}",
        "amount": chance.randrange(100_000),
        "currency": chance.choice(("EUR", "USD", "GBP")),
        "status": chance.choice(("created", "paid", "shipped", "returned")),
        "note": "x" * 60,
    }
    text = json.dumps(value)
    return (text + " " * (VALUE_BYTES - len(text))).encode()


def same_plan(one: "DataFrame", other: "DataFrame") -> None:
    if sorted(one.inputFiles()) != sorted(other.inputFiles()):
        raise AssertionError("tierlog.spark.read and plain Spark read other files")
    plans = [plan_of(each) for each in (one, other)]
    if plans[0] != plans[1]:
        raise AssertionError(f"the plans differ:\n{plans[0]}\n{plans[1]}")


def plan_of(frame: "DataFrame") -> str:
    """Without the numbers that Spark gives to columns anew in every plan."""
    text = frame._jdf.queryExecution().executedPlan().toString()
    return re.sub(r"#\d+L?", "", text)
