"""The streaming side of `format("tierlog")`.

Offsets in the checkpoint have the shape of Kafka's source: {"orders":{"0":3,"1":5}}. A micro batch
pins the manifests anew, of the partitions that have moved: what was raw in the batch before may be
Parquet by now, and offsets do not care. Partitions that appear later begin at their first offset.
Those that are gone, or end before the place where the stream is, are a loss: `losing`.

Spark 4.1 asks for the latest offset without saying where the stream is. So the reader remembers
what it was last asked to read, which Spark also tells it at a restart, and keeps to
`maxOffsetsPerTrigger` from there. Spark 4.2 and later say it, and how much is wanted: `admitting`.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tierlog.env import SystemClock
from tierlog.spark import losing
from tierlog.spark.bounds import PartitionName, flattened, nested
from tierlog.spark.pins import pinning
from tierlog.spark.plan import Span
from tierlog.spark.resolving import asked_times, starts, warn_of_ignored
from tierlog.spark.source import SlicesPartition, partitions_of, reading_of
from tierlog.spark.stores import place_of, with_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from tierlog.env import Clock
    from tierlog.spark.options import ReadOptions
    from tierlog.spark.pins import Pinned
    from tierlog.spark.plan import Slice
    from tierlog.spark.stores import Opened

Offsets = dict[PartitionName, int]

LOOKS_MAX, LOOK_AGAIN_S = 3, 0.2
"""Before a loss is believed: a broker that has just become the leader may not know the end yet."""


class TierlogStreamReader(DataSourceStreamReader):
    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._first: Offsets | None = None
        self._seen: Offsets | None = None
        """Where the stream is, as far as Spark has told."""
        self._found: Offsets | None = None
        """Where the partitions ended at the last look."""
        self._ids: dict[str, str] = {}
        """Of the topics, as far as this reader has seen them."""
        self._clock: Clock = SystemClock()
        self._last_batch: float | None = None
        """When there was enough for one, or it was due."""

    def initialOffset(self) -> dict[str, dict[str, int]]:
        return nested(self._initial())

    def _initial(self) -> Offsets:
        """Worked out once: Spark may ask for the latest offset before it asks for the first."""
        if self._first is None:
            self._first = self._resolved_start()
        return self._first

    def _resolved_start(self) -> Offsets:
        async def work(bucket: Opened) -> Offsets:
            async with pinning(bucket, self._options) as pins:
                pinned = await pins.pin(self._options, with_tables=False)
                times = await pins.times(pinned, asked_times(self._options.start, pinned))
                self._ids |= losing.ids_of(pinned)
                return starts(self._options, pinned, times)

        found: Offsets = self._with_store(work)
        return found

    def latestOffset(self) -> dict[str, dict[str, int]]:
        # A stream that has never been asked to read, nor been told where it is, begins.
        seen = self._initial() if self._seen is None else self._seen
        return nested(self._latest(seen, self._options.trigger_offsets_max))

    def _latest(self, seen: Offsets, limit: int | None) -> Offsets:
        pinned, lost = self._looked(seen)
        for sentence in lost.values():
            losing.report(self._options, sentence)
        self._ids |= losing.ids_of(pinned)
        self._found = {name: one.latest for name, one in pinned.items()}
        start = {
            name: one.earliest if name in lost else seen.get(name, one.earliest)
            for name, one in pinned.items()
        }
        if not lost and self._waits(sum(self._found.values()) - sum(start.values())):
            return seen
        ends = self._found if limit is None else limited(start, self._found, limit)
        # A partition that is gone has no end. One that begins again has an end before `seen`.
        return ends | {
            name: losing.before(ends[name], seen[name], start[name])
            for name in lost
            if name in ends
        }

    def _waits(self, offsets: int) -> bool:
        """Whether so many are too few for a batch, and none is due. The first never waits."""
        least, now = self._options.trigger_offsets_min, self._clock.monotonic()
        if least is None:
            return False
        is_due = (
            self._last_batch is None
            or (now - self._last_batch) * 1000 >= self._options.trigger_delay_max_ms
        )
        if not is_due and offsets < least:
            return True
        self._last_batch = now
        return False

    def _looked(
        self, seen: Offsets
    ) -> tuple[dict[PartitionName, Pinned], dict[PartitionName, str]]:
        for number in range(LOOKS_MAX):
            if number:
                time.sleep(LOOK_AGAIN_S)
            pinned = self._pinned(may_lack(self._options, seen))
            lost = losing.losses(seen, pinned, self._ids)
            if not lost:
                break
        return pinned, lost

    def _pinned(self, lacking: Collection[str]) -> dict[PartitionName, Pinned]:
        async def work(bucket: Opened) -> dict[PartitionName, Pinned]:
            async with pinning(bucket, self._options) as pins:
                return await pins.pin(self._options, with_tables=False, may_lack=lacking)

        found: dict[PartitionName, Pinned] = self._with_store(work)
        return found

    def partitions(
        self, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
    ) -> Sequence[InputPartition]:
        first, last = flattened(start), flattened(end)
        self._seen = last
        if first == last:
            return [SlicesPartition(())]  # At a restart Spark says in this way where it is.
        work = _plan(self._options, first, last, self._ids)
        return partitions_of(self._options, self._with_store(work))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from tierlog.spark.slices import rows_of

        assert isinstance(partition, SlicesPartition)
        reading = reading_of(self._options, self._columns)
        for one in partition.slices:
            yield from rows_of(reading, one)

    def commit(self, end: dict[str, dict[str, int]]) -> None:
        """Nothing is kept outside of Spark's checkpoint."""

    def stop(self) -> None:
        """Nothing is open between two calls."""

    def _with_store(self, work: Any) -> Any:
        return with_store(place_of(self._options), work)


def stream_reader(options: ReadOptions, columns: Sequence[str]) -> DataSourceStreamReader:
    """As this version of Spark wants it."""
    warn_of_ignored(options)
    if find_spec("pyspark.sql.streaming.datasource") is None:
        return TierlogStreamReader(options, columns)
    from tierlog.spark.admitting import AdmittingStreamReader

    return AdmittingStreamReader(options, columns)


def may_lack(options: ReadOptions, seen: Offsets) -> frozenset[str]:
    """Topics whose absence is a loss, and not a mistake in a name."""
    named = frozenset[str]() if options.fail_on_data_loss else options.topics
    return named | {name.topic for name in seen}


def limited(start: Mapping[PartitionName, int], end: Offsets, limit: int) -> Offsets:
    """At most so many offsets in all. One for every partition with something left, so that none
    starves (also where they are more than the limit), the rest by what is left of each."""
    left = {name: max(0, end[name] - start[name]) for name in end}
    if sum(left.values()) <= limit:
        return dict(end)
    ones = sum(many > 0 for many in left.values())
    rest, shared = max(0, limit - ones), sum(left.values()) - ones
    return {
        name: start[name] + 1 + rest * (many - 1) // max(1, shared) if many else end[name]
        for name, many in left.items()
    }


def _plan(options: ReadOptions, first: Offsets, last: Offsets, ids: dict[str, str]) -> Any:
    async def work(bucket: Opened) -> list[Slice]:
        async with pinning(bucket, options) as pins:
            idle = {name for name, end in last.items() if first.get(name) == end}
            lacking = may_lack(options, first | last)
            pinned = await pins.pin(options, left_out=idle, may_lack=lacking)
            for one in pinned.values():
                if losing.is_another(one, ids):
                    losing.report(options, f"{one.name} was deleted and made anew just now")
            # A reader that was started anew begins here: Spark plans the last batch again.
            ids.update(losing.ids_of(pinned) | ids)
            moving = {name: end for name, end in last.items() if name not in idle}
            spans = spans_of(options, pinned, _but(first, idle), moving)
            slices = await pins.slices(spans, pinned)
            await pins.check_dead(options, slices)
            return slices

    return work


def _but(offsets: Offsets, names: Collection[PartitionName]) -> Offsets:
    return {name: at for name, at in offsets.items() if name not in names}


def spans_of(
    options: ReadOptions, pinned: Mapping[PartitionName, Pinned], first: Offsets, last: Offsets
) -> list[Span]:
    found: list[Span] = []
    for name in sorted(first.keys() - last.keys()):
        losing.report(options, f"{name} is gone, and the stream has read it up to {first[name]}")
    for name, end in sorted(last.items()):
        one = pinned.get(name)
        if one is None:
            if end != first.get(name, 0):
                losing.report(options, f"{name} is gone, and the stream wants it up to {end}")
            continue
        start = first.get(name, one.earliest)
        if start > end:
            start = _again(options, one, first.get(name), end)
        elif not one.earliest <= start <= end <= one.latest:
            losing.report(
                options,
                f"{name} has offsets {one.earliest} to {one.latest}, and the stream wants {start} "
                f"to {end}",
            )
        start, end = max(start, one.earliest), min(end, one.latest)
        if start < end:
            found.append(Span(name=name, start=start, end=end, bucket_end=one.bucket_end))
    return found


def _again(options: ReadOptions, one: Pinned, start: int | None, end: int) -> int:
    """Where a partition begins whose batch ends before it."""
    if start is None:
        # It appeared in a batch that was not committed, and what that wanted has left since.
        sentence = (
            f"{one.name} begins at {one.earliest}, and the stream wants what was before {end}"
        )
    else:
        sentence = f"{one.name} went back from offset {start} to {end}"
    losing.report(options, sentence)
    return one.earliest
