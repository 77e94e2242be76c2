"""`tierlog.spark.read`: history as a DataFrame, by Spark's own Parquet reader.

The driver pins the manifests and plans; whole files go to Spark in one call with the schema given,
so no footer is read to infer one; boundary files are read beside them with a filter on offsets;
what is not Parquet yet, and the hot tail, comes by tasks in Python. The result is exactly
`[start, end)`, each record once, whatever is produced, converted or merged meanwhile.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING

from tierlog.spark.errors import OptionRefused, SparkMissing
from tierlog.spark.options import STORE_CONF, Mode, ReadOptions, parse_options
from tierlog.spark.pins import pinning
from tierlog.spark.plan import ParquetSlice, tasks_of
from tierlog.spark.prices import as_text, cost_of
from tierlog.spark.resolving import warn_of_ignored
from tierlog.spark.stores import S3, StorePlace, place_of, with_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from tierlog.spark.plan import Slice, Span
    from tierlog.spark.prices import ReadCost, ReadPrices
    from tierlog.spark.slices import Reading
    from tierlog.spark.stores import Opened

logger = logging.getLogger(__name__)

S3A_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a batch will read, and where it ends."""

    options: ReadOptions
    spans: list[Span]
    slices: list[Slice]
    gets: int
    """That planning took."""

    def cost(self, prices: ReadPrices | None = None) -> ReadCost:
        return cost_of(self.slices, manifest_gets=self.gets, prices=prices)


def read(
    spark: SparkSession,
    *,
    store: str | None = None,
    topic: str | None = None,
    explain: bool = False,
    prices: ReadPrices | None = None,
    **options: str | int | bool,
) -> DataFrame:
    """The records of a topic (or of what `subscribe`, `assign`, `subscribePattern` choose).

    `options` are those of Spark's Kafka source, by the same names; those with dots in them by
    `**{"kafka.bootstrap.servers": ...}`. `store` may stand in the Spark conf `spark.tierlog.store`.
    `explain` prints files, bytes, GETs and dollars; nothing of the data is read yet then.
    """
    given = {name: _as_text(name, value) for name, value in options.items()}
    given |= {"store": store} if store is not None else {}
    given |= {"subscribe": topic} if topic is not None else {}
    default_store = spark.conf.get(STORE_CONF, None)
    planned = plan(parse_options(given, mode=Mode.BATCH, default_store=default_store))
    if explain:
        sys.stdout.write(explained(planned, prices) + "\n")
    return frame_of(spark, planned)


def _as_text(name: str, value: object) -> str:
    """As Spark's own `option` turns what it is given into text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        return str(value)
    raise OptionRefused(name, f"{name} must be text, a number or a flag, not {value!r}")


def plan(options: ReadOptions) -> Planned:
    """Looks into the bucket; reads no data. Raises what `pins` and `resolving` raise."""
    warn_of_ignored(options)

    async def work(bucket: Opened) -> Planned:
        async with pinning(bucket, options) as pins:
            pinned = await pins.pin(options)
            spans = await pins.spans(options, pinned)
            slices = await pins.slices(spans, pinned)
            await pins.check_dead(options, slices)
        gets = sum(bucket.stats.of(kind).requests for kind in ("get", "list"))
        return Planned(options=options, spans=spans, slices=slices, gets=gets)

    return with_store(place_of(options), work)


def explained(planned: Planned, prices: ReadPrices | None = None) -> str:
    topics = {span.name.topic for span in planned.spans}
    return as_text(planned.cost(prices), topics=topics, partitions=len(planned.spans))


def frame_of(spark: SparkSession, planned: Planned) -> DataFrame:
    """Lazy, as Spark's readers are."""
    from tierlog.spark.columns import columns_of, ddl_of

    columns = columns_of(planned.options)
    place = place_of(planned.options)
    parquet = [one for one in planned.slices if isinstance(one, ParquetSlice)]
    others: list[Slice] = [one for one in planned.slices if not isinstance(one, ParquetSlice)]
    parts: list[DataFrame] = []
    if parquet and not reads_natively(spark, place):
        logger.warning(
            "Spark has no %s: files are read by Python tasks, more slowly; docs/spark.md has the "
            "jars",
            S3A_CLASS,
        )
        others, parquet = list(planned.slices), []
    if whole := [one for one in parquet if one.is_whole]:
        parts.append(_native(spark, place, columns, whole))
    if edges := [one for one in parquet if not one.is_whole]:
        names = {one.name for one in edges}
        spans = [span for span in planned.spans if span.name in names]
        parts.append(_native(spark, place, columns, edges, partial(within, spark, spans)))
    if others:
        parts.append(_by_tasks(spark, planned.options, columns, others))
    if not parts:
        return spark.createDataFrame([], ddl_of(columns))
    return reduce(lambda one, other: one.unionAll(other), parts)


def reads_natively(spark: SparkSession, place: StorePlace) -> bool:
    """Whether Spark itself can read the store. Where that cannot be asked, it is believed."""
    if not place.url.startswith(S3):
        return True
    try:
        jvm = spark.sparkContext._jvm
    except Exception:  # noqa: BLE001  (Spark Connect has no JVM at hand, and says so in many ways)
        return True
    assert jvm is not None
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(S3A_CLASS)
    except Exception:  # noqa: BLE001  (Py4J's own, whose type depends on its version)
        return False
    return True


def _native(
    spark: SparkSession,
    place: StorePlace,
    columns: Sequence[str],
    slices: Sequence[ParquetSlice],
    cut: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    from tierlog.spark.columns import ddl_of

    _point_s3a(spark, place)
    paths = list(dict.fromkeys(place.path_of(one.file.key) for one in slices))
    needed = list(dict.fromkeys((*columns, "topic", "partition", "offset")))
    found = spark.read.schema(ddl_of(needed)).parquet(*paths)
    return (found if cut is None else cut(found)).select(*columns)


def _point_s3a(spark: SparkSession, place: StorePlace) -> None:
    """Tell s3a where this bucket is served, if the read says so and the session does not."""
    if not place.url.startswith(S3) or not place.endpoint:
        return
    bucket = place.url.removeprefix(S3).partition("/")[0]
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in (
        ("endpoint", place.endpoint),
        ("endpoint.region", place.region or "us-east-1"),
        ("path.style.access", "true"),
    ):
        if not conf.get(f"fs.s3a.{name}"):
            conf.set(f"fs.s3a.bucket.{bucket}.{name}", value)


TERMS_MAX = 32
"""Of a filter. Spark walks it term in term: 300 took seconds to plan, 500 overflowed its stack; and
what it makes of long lists of partitions the JVM may refuse to load."""


def within(spark: SparkSession, spans: Sequence[Span], frame: DataFrame) -> DataFrame:
    """Rows of these spans. A filter in a form that Parquet's statistics understand; where that
    would be a long one, a join with the bounds, behind a filter of what they have in common."""
    from pyspark.sql import functions as f

    if len(spans) <= TERMS_MAX:
        return frame.where(reduce(lambda left, right: left | right, map(_term, spans)))
    offset = f.col("offset")
    near = frame.where(
        (offset >= min(one.start for one in spans)) & (offset < max(one.end for one in spans))
    )
    bounds = f.broadcast(
        spark.createDataFrame(
            [(one.name.topic, one.name.partition, one.start, one.end) for one in spans],
            "of_topic string, of_partition int, start bigint, end bigint",
        )
    )
    # A partition has one span: no row is there twice.
    is_same = (f.col("topic") == f.col("of_topic")) & (f.col("partition") == f.col("of_partition"))
    is_within = (offset >= f.col("start")) & (offset < f.col("end"))
    return near.join(bounds, is_same & is_within, "inner")


def _term(span: Span) -> Column:
    from pyspark.sql import functions as f

    offset = f.col("offset")
    is_partition = (f.col("partition") == span.name.partition) & (f.col("topic") == span.name.topic)
    return is_partition & (offset >= span.start) & (offset < span.end)


def _by_tasks(
    spark: SparkSession, options: ReadOptions, columns: Sequence[str], slices: Sequence[Slice]
) -> DataFrame:
    from tierlog.spark.columns import ddl_of
    from tierlog.spark.slices import Reading

    parts = tasks_of(
        slices,
        partitions_min=options.partitions_min,
        records_max=options.partition_records_max,
    )
    reading = Reading(
        place=place_of(options),
        columns=tuple(columns),
        brokers=options.brokers,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    # One number a task: its slices travel with the function.
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(_task(reading, parts), ddl_of(columns))


def _task(
    reading: Reading, parts: Sequence[Sequence[Slice]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from tierlog.spark.slices import rows_of

        for batch in batches:
            for number in batch.column(0).to_pylist():
                for one in parts[number]:
                    yield from rows_of(reading, one)

    return run


def need_spark() -> None:
    """Raises `SparkMissing`."""
    try:
        import pyspark  # noqa: F401  (only whether it is there)
    except ImportError:
        raise SparkMissing from None
