"""`tierlog spark replay`: a range of a topic's history into another topic, through the brokers.

Chosen by offsets or times, in the words of a read, and by keys. Key, value, headers, timestamp and
partition are kept; each record gets the header `tierlog.source`, "topic/partition/offset/run". One
task for each partition, so its records keep their order. At least once: a task that is run again
asks the target for the last `tierlog.source` of its partition and run and goes on behind it, and so
does whoever runs the job again: `resuming`. `run` names bounds and keys as they were given: another
question to the same history is another run, and is answered from its beginning.

    source offsets   ..  [ 7  8  9 10 11 )       task dies after 9 was acknowledged, or not
    target                 7  8  9               the next try finds 9 in the target: goes on with 10
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from tierlog.client import Producer, ProducerSettings
from tierlog.spark import hottail, resuming
from tierlog.spark.errors import NotReadable
from tierlog.spark.plan import Slice, bytes_of
from tierlog.spark.reading import plan
from tierlog.spark.resuming import SOURCE_HEADER, Looked
from tierlog.spark.running import run_tasks
from tierlog.spark.slices import Reading, rows_of
from tierlog.spark.stores import apart, place_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tierlog.client import Client
    from tierlog.config import Address
    from tierlog.spark.bounds import PartitionName
    from tierlog.spark.options import ReadOptions
    from tierlog.spark.running import Watcher

COLUMNS = ("offset", "timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """One partition."""

    name: PartitionName
    slices: tuple[Slice, ...]
    target: str
    brokers: tuple[Address, ...]
    reading: Reading
    keys: frozenset[bytes] | None
    run: str
    since: Looked

    @property
    def size(self) -> int:
        return sum(map(bytes_of, self.slices))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    name: PartitionName
    records: int
    """Written by this run."""
    resumed_at: int | None
    """The first offset that was not there from an earlier run; None: there was none."""


def replay(
    spark: SparkSession,
    options: ReadOptions,
    *,
    target: str,
    brokers: Sequence[Address],
    keys: Collection[bytes] | None = None,
    run: str | None = None,
    is_fresh: bool = False,
    watcher: Watcher | None = None,
    look_watcher: Watcher | None = None,
) -> list[Replayed]:
    """`target` must exist, with as many partitions as the source has, and take create times.

    Calls with the same `run` go on where the last one ended; by default it is made of bounds and
    keys. `is_fresh` says that there was none before: the target is not read to find it.
    `look_watcher` is told how many offsets of the target were looked at, and how many there are.
    """
    planned = plan(options)
    by_name: dict[PartitionName, list[Slice]] = {}
    for one in planned.slices:
        by_name.setdefault(one.name, []).append(one)
    apart(partial(_check_target, target, tuple(brokers), [*by_name]))
    reading = Reading(
        place=place_of(options),
        columns=COLUMNS,
        brokers=options.brokers,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    run = run or run_of(options.start, options.end, keys)
    looking = partial(
        _looked, target, tuple(brokers), sorted(by_name), run, is_fresh=is_fresh, on=look_watcher
    )
    looked = apart(looking)
    tasks = [
        ReplayTask(
            name=name,
            slices=tuple(slices),
            target=target,
            brokers=tuple(brokers),
            reading=reading,
            keys=None if keys is None else frozenset(keys),
            run=run,
            since=looked[name],
        )
        for name, slices in sorted(by_name.items())
    ]
    return run_tasks(spark, tasks, run_task, size_of=lambda one: one.size, watcher=watcher)


def run_of(start: object, end: object, keys: Collection[bytes] | None) -> str:
    """A name for a question, without slashes."""
    asked = (start, end, None if keys is None else sorted(keys))
    return sha256(repr(asked).encode()).hexdigest()[:16]


async def _check_target(
    target: str, brokers: Sequence[Address], names: Sequence[PartitionName]
) -> None:
    async with hottail.connected(brokers) as client:
        known = await hottail.topics_of(client)
    if target not in known:
        raise NotReadable(f"there is no topic {target} to replay into; create it first")
    if any(name.topic == target for name in names):
        raise NotReadable(f"{target} cannot be replayed into itself")
    lacking = [name for name in names if name.partition not in known[target][1]]
    if lacking:
        raise NotReadable(
            f"{target} has {len(known[target][1])} partitions, and {lacking[0]} keeps its number; "
            "create it with as many as the source has"
        )


async def _looked(
    target: str,
    brokers: Sequence[Address],
    names: Sequence[PartitionName],
    run: str,
    *,
    is_fresh: bool,
    on: Watcher | None,
) -> dict[PartitionName, Looked]:
    async with hottail.connected(brokers) as client:
        return await resuming.look(client, target, names, run, is_fresh=is_fresh, watcher=on)


# On executors


def run_task(task: ReplayTask) -> Replayed:
    return apart(partial(_replayed, task))


async def _replayed(task: ReplayTask) -> Replayed:
    async with hottail.connected(task.brokers) as client:
        last = await resuming.last_since(client, task.target, task.name, task.run, task.since)
        start = None if last is None else last + 1
        records = await _sent(client, task, start or 0)
    return Replayed(name=task.name, records=records, resumed_at=start)


async def _sent(client: Client, task: ReplayTask, start: int) -> int:
    count = 0
    loop = asyncio.get_running_loop()
    rows = _rows(task, start)
    async with Producer(client, ProducerSettings(linger_s=0.005)) as producer:
        # Reading has a loop of its own, so it is done in a thread, a batch at a time.
        while (batch := await loop.run_in_executor(None, next, rows, None)) is not None:
            futures = []
            for offset, ms, key, value, headers in _records(batch):
                if offset >= start and (task.keys is None or key in task.keys):
                    source = f"{task.name.topic}/{task.name.partition}/{offset}/{task.run}"
                    futures.append(
                        await producer.send(
                            task.target,
                            value,
                            key=key,
                            headers=(*headers, (SOURCE_HEADER, source.encode())),
                            timestamp=ms,
                            partition=task.name.partition,
                        )
                    )
            await asyncio.gather(*futures)  # Raises: what follows a failure is not sent.
            count += len(futures)
    return count


def _rows(task: ReplayTask, start: int) -> Iterator[pa.RecordBatch]:
    for one in task.slices:
        if one.end > start:
            yield from rows_of(task.reading, one)


def _records(
    batch: pa.RecordBatch,
) -> Iterator[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    # Kafka's milliseconds, of which the table has made microseconds.
    ms = (batch.column("timestamp").cast("int64").to_numpy() // 1000).tolist()
    columns = [batch.column(name).to_pylist() for name in ("offset", "key", "value", "headers")]
    for offset, key, value, headers, at in zip(*columns, ms, strict=True):
        pairs = tuple((one["key"], one["value"]) for one in headers or ())
        yield offset, at, key, value, pairs
