"""`format("tierlog")`: the bucket as a data source of Spark, written in Python.

    spark.read.format("tierlog").option("subscribe", "orders").load()
    spark.readStream.format("tierlog").option("subscribe", "orders").load()

Takes the options of Spark's Kafka source, reads Parquet and raw segments without any jar, and the
hot tail where brokers are named. Slower than `tierlog.spark.read` on large scans, since rows pass
through Python; docs/spark.md says when to take which.

Spark makes the source in a process of its own beside the driver, which knows nothing of the
session's conf. So the store is the option `store`, or what `install(spark)` has bound, or the
environment's TIERLOG_STORE. Without any of these a batch is planned by its one task, which does
know `spark.tierlog.store`.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tierlog.spark.errors import OptionRefused
from tierlog.spark.options import STORE_CONF, Mode, canonical, parse_options
from tierlog.spark.stores import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader, Filter
    from pyspark.sql.types import StructType

    from tierlog.spark.options import ReadOptions
    from tierlog.spark.plan import Slice
    from tierlog.spark.slices import Reading

NAME = "tierlog"
STORE_VARIABLE = "TIERLOG_STORE"
UNKNOWN_STORE = "file:///unknown"
"""In place of a store that only the task will know."""
ONE_TASK_BYTES = 256 << 20
"""From which on it matters that nobody shares the work: four times what a task reads otherwise."""

logger = logging.getLogger(__name__)


class SlicesPartition(InputPartition):
    """What one task reads; nothing, if there are no slices. An empty list of partitions would be
    one partition of None to Spark."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        self.slices = tuple(slices)


class LaterPartition(InputPartition):
    """The whole read, planned by its task."""

    def __init__(self) -> None:
        """Says it all by its type."""


class TierlogSource(DataSource):
    bound_store: ClassVar[str | None] = None

    def __init__(self, options: Mapping[str, str]) -> None:
        # Spark's map forgets that it has no regard for case when it is copied: ours has none.
        self._given = dict(options.items())

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        from tierlog.spark.columns import columns_of, ddl_of

        known = canonical(self._given)  # Whether it is a batch is not known yet: no bounds.
        flags = {"includeHeaders", "includeLineage", "subscribe", "assign", "subscribePattern"}
        some = {name: text for name, text in known.items() if name in flags}
        return ddl_of(columns_of(parse_options(some, mode=Mode.BATCH, default_store=UNKNOWN_STORE)))

    def reader(self, schema: StructType) -> DataSourceReader:
        from tierlog.spark.columns import chosen_columns

        store = self._store()
        options = parse_options(self._given, mode=Mode.BATCH, default_store=store or UNKNOWN_STORE)
        kind = PushingReader if options.push_filters else TierlogReader
        columns = chosen_columns(schema)
        return kind(self._given, options, columns, knows_store=options.store != UNKNOWN_STORE)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from tierlog.spark.columns import chosen_columns
        from tierlog.spark.streaming import stream_reader

        options = parse_options(self._given, mode=Mode.STREAM, default_store=self._store())
        return stream_reader(options, chosen_columns(schema))

    def _store(self) -> str | None:
        return type(self).bound_store or os.environ.get(STORE_VARIABLE)


def install(spark: SparkSession) -> None:
    """Bind `format("tierlog")` of this session to its `spark.tierlog.store`."""
    store = spark.conf.get(STORE_CONF, None)
    if not store:
        raise OptionRefused("store", f"the session has no {STORE_CONF}; set it first")
    # A class of its own: what is pickled by name would forget the store.
    bound = type("BoundSource", (TierlogSource,), {"bound_store": store, "__module__": "__main__"})
    spark.dataSource.register(bound)


def reading_of(options: ReadOptions, columns: Sequence[str]) -> Reading:
    from tierlog.spark.slices import Reading

    return Reading(
        place=place_of(options),
        columns=tuple(columns),
        brokers=options.brokers,
        fail_on_data_loss=options.fail_on_data_loss,
    )


class TierlogReader(DataSourceReader):
    """A batch. Has no `pushFilters`: Spark refuses a reader with one unless a conf allows it."""

    def __init__(
        self,
        given: Mapping[str, str],
        options: ReadOptions,
        columns: Sequence[str],
        *,
        knows_store: bool,
    ) -> None:
        self._given = dict(given)
        self._options = options
        self._columns = tuple(columns)
        self._knows_store = knows_store

    def partitions(self) -> Sequence[InputPartition]:
        if not self._knows_store:
            return [LaterPartition()]
        return partitions_of(self._options, self._slices(self._options))

    def _slices(self, options: ReadOptions) -> list[Slice]:
        from tierlog.spark.reading import plan

        return plan(options).slices

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from tierlog.spark.slices import rows_of

        options, slices = self._options, getattr(partition, "slices", ())
        if isinstance(partition, LaterPartition):
            options = parse_options(
                self._given, mode=Mode.BATCH, default_store=_store_of_the_task()
            )
            slices = self._slices(options)
            warn_of_one_task(slices)
        reading = reading_of(options, self._columns)
        for one in slices:
            yield from rows_of(reading, one)


class PushingReader(TierlogReader):
    """A batch with `pushFilters`, behind the option of that name and Spark's own conf."""

    _filters: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._filters = tuple(filters)
        return filters  # Spark looks at each row again: what is left out here is only bytes.

    def _slices(self, options: ReadOptions) -> list[Slice]:
        from tierlog.spark.pruning import pruned

        return pruned(super()._slices(options), self._filters)


def warn_of_one_task(slices: Sequence[Slice]) -> None:
    """In the log of the executor, where somebody looks who wonders why one task runs on."""
    from tierlog.spark.plan import bytes_of

    size = sum(map(bytes_of, slices))
    if size > ONE_TASK_BYTES:
        logger.warning(
            "one task reads %d MB: the driver does not know the store; call "
            "tierlog.spark.install(spark), or give the option store, for many tasks",
            size // 10**6,
        )


def _store_of_the_task() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    store = None if context is None else context.getLocalProperty(STORE_CONF)
    if not store:
        raise OptionRefused(
            "store",
            f"no store is named: give the option store, set {STORE_CONF}, or {STORE_VARIABLE} in "
            "the driver's environment",
        )
    return store


def partitions_of(options: ReadOptions, slices: Sequence[Slice]) -> list[InputPartition]:
    from tierlog.spark.plan import tasks_of

    tasks = tasks_of(
        slices,
        partitions_min=options.partitions_min,
        records_max=options.partition_records_max,
    )
    return [SlicesPartition(some) for some in tasks] or [SlicesPartition(())]
