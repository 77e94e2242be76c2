"""A node with two topics that only the store has, and a Spark beside it.

`history` is half a gigabyte of events in eight partitions, in segments and Parquet files as they
come by default. `narrow` is one partition in several hundred small files of a row group each: what
a range of offsets needs. Both are converted by the Spark job, and the node's own tables are off, so
that nothing else is under way while something is measured.
"""

import asyncio
import json
import random
import time
from typing import TYPE_CHECKING

from benchmarks.broker import PAGE_CACHE
from benchmarks.coldstage import WITHOUT_TABLE
from benchmarks.harness import Size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.compat.node import RunningNode
    from tierlog.client.values import NewRecord
    from tierlog.spark.converting import ConvertReport

HISTORY, NARROW, WARM = "history", "narrow", "warm"
PARTITIONS = 8
CUSTOMERS = 5_000
KINDS = 50_000
"""Of events, but for their ids: twelve megabytes, more than a codec looks back."""
RECORDS_A_BATCH = 1_000
HISTORY_SHARE = 8
"""Of `Size.data_bytes`: half a gibibyte of keys and values at the full size."""
NARROW_SHARE = 1.5
BATCHES_A_SEGMENT = 3
EVENT_BYTES = 300
NARROW_SEGMENTS = 300
"""One percent of them is three, and a range touches one more than it fills."""
SHRINKS = 2.8
"""What LZ4 makes of these events."""


class Events:
    """As a shop would write them: JSON of 284 bytes, a key out of five thousand."""

    def __init__(self, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self._rests = [self._rest() for _ in range(KINDS)]

    def some(self, count: int) -> list[tuple[bytes, bytes]]:
        """Keys and values."""
        return [(self._key(), self._value()) for _ in range(count)]

    def _key(self) -> bytes:
        return b"customer-%05d" % self._chance.randrange(CUSTOMERS)

    def _value(self) -> bytes:
        return b'{"id": "%024x", %s' % (
            self._chance.getrandbits(96),
            self._rests[self._chance.randrange(KINDS)],
        )

    def _rest(self) -> bytes:
        chance = self._chance
        items = [
            {
                "sku": f"{chance.randrange(20_000):06d}",
                "count": chance.randrange(1, 9),
                "price": chance.randrange(100_000) / 100,
            }
            for _ in range(3)
        ]
        value = {
            "created": f"2026-11-{chance.randrange(1, 29):02d}T{chance.randrange(86_400):05d}Z",
            "status": chance.choice(("created", "paid", "shipped", "returned")),
            "currency": chance.choice(("EUR", "USD", "GBP")),
            "city": chance.choice(("Berlin", "Paris", "Madrid", "Lisboa", "Wien", "Oslo")),
            "items": items,
        }
        return json.dumps(value)[1:].encode()


class Stage:
    """`bytes` are those of keys and values of the history."""

    def __init__(self, node: "RunningNode", spark: "SparkSession", size: Size) -> None:
        self.node = node
        self.spark = spark
        self.store = f"file://{node.data}-store"
        self.bytes = self.records = 0
        self.narrow_records = 0
        self.convert_s = 0.0
        self._size = size
        self._events = Events()

    # Data

    def fill_history(self) -> None:
        wanted = int(self._size.options.get("mb", HISTORY_SHARE * self._size.data_bytes >> 20))
        self.bytes, self.records = self._fill(
            HISTORY, PARTITIONS, wanted << 20, records=RECORDS_A_BATCH
        )
        self._warm_up()
        began = time.perf_counter()
        self._converted(HISTORY)
        self.convert_s = time.perf_counter() - began
        self._resolve()

    def _warm_up(self) -> None:
        """Tasks have loaded what converts when it counts: a batch for each of the two."""
        self._fill(WARM, 2, 1, records=RECORDS_A_BATCH)
        self._converted(WARM)

    def fill_narrow(self) -> None:
        wanted = int(NARROW_SHARE * self._size.data_bytes)
        segments = NARROW_SEGMENTS if self._size.is_full else 12
        segment = max(1024, int(wanted / SHRINKS / segments))
        configs = {"segment.bytes": str(segment)}
        each = max(1, wanted // segments // BATCHES_A_SEGMENT // EVENT_BYTES)
        _, self.narrow_records = self._fill(NARROW, 1, wanted, records=each, configs=configs)
        self._converted(NARROW, segments_max=1)

    def _fill(
        self,
        topic: str,
        partitions: int,
        wanted: int,
        *,
        records: int,
        configs: dict[str, str] | None = None,
    ) -> tuple[int, int]:
        """What was written: bytes of keys and values, and records."""
        from tests.compat.cold import make_cold
        from tests.compat.drivers.confluent import Confluent

        settings = {**WITHOUT_TABLE, **PAGE_CACHE, **(configs or {})}
        Confluent().admin(self.node.address).create(topic, partitions, **settings)
        done = asyncio.run(self._write(topic, partitions, wanted, records))
        make_cold(self.node, topic)
        return done

    async def _write(
        self, topic: str, partitions: int, wanted: int, records: int
    ) -> tuple[int, int]:
        from tierlog.client import Client
        from tierlog.env import local_env
        from tierlog.records.attributes import Codec

        env = local_env()
        host, port = self.node.address.split(":")
        size = count = 0
        async with Client([(host, int(port))], clock=env.clock, rng=env.rng) as client:
            while size < wanted:
                batches = [list(self._batch(records)) for _ in range(partitions)]
                works = [
                    client.produce(topic, index, batch, codec=Codec.LZ4)
                    for index, batch in enumerate(batches)
                ]
                await asyncio.gather(*works)
                size += sum(
                    len(one.key or b"") + len(one.value or b"") for b in batches for one in b
                )
                count += partitions * records
        return size, count

    def _batch(self, records: int) -> "Iterator[NewRecord]":
        from tierlog.client.values import NewRecord

        return (NewRecord(value, key=key) for key, value in self._events.some(records))

    def _converted(self, topic: str, *, segments_max: int | None = None) -> "ConvertReport":
        from tierlog.spark.converting import convert
        from tierlog.spark.stores import StorePlace
        from tierlog.table.settings import TableSettings

        # One a file: as many row groups as there are segments.
        settings = TableSettings(convert_segments_max=segments_max) if segments_max else None
        place = StorePlace(url=self.store)
        return convert(self.spark, place, topics=[topic], settings=settings)

    def _resolve(self) -> None:
        """What plain Spark is told: it shall find nothing out that ours has to."""
        ours = self.ours()
        self._paths = sorted(ours.inputFiles())
        self._schema, self._columns = ours.schema, ours.columns

    @property
    def files(self) -> int:
        return len(self._paths)

    def row_groups(self, topic: str) -> int:
        """Of all its files, as TABLE says."""
        from tierlog.spark.options import Mode, parse_options
        from tierlog.spark.plan import ParquetSlice
        from tierlog.spark.reading import plan

        given = {"store": self.store, "subscribe": topic}
        planned = plan(parse_options(given, mode=Mode.BATCH, default_store=None))
        found = [one.file for one in planned.slices if isinstance(one, ParquetSlice)]
        return sum(one.row_groups for one in found)

    # Who reads

    def ours(self, topic: str = HISTORY, **options: str) -> "DataFrame":
        import tierlog.spark

        return tierlog.spark.read(self.spark, store=self.store, topic=topic, **options)  # type: ignore[arg-type]  # those are text

    def plain(self) -> "DataFrame":
        reader = self.spark.read.schema(self._schema)
        return reader.parquet(*self._paths).select(*self._columns)

    def source(self) -> "DataFrame":
        options = {"store": self.store, "subscribe": HISTORY}
        return self.spark.read.format("tierlog").options(**options).load()

    def kafka(self) -> "DataFrame":
        options = {"kafka.bootstrap.servers": self.node.address, "subscribe": HISTORY}
        return self.spark.read.format("kafka").options(**options).load()
