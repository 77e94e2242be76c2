"""The same rows, whoever reads, while everything goes on: records are produced and go cold, a node
converts and merges Parquet files, the log's start moves up. Reads begin and end where the tiers
meet at that moment."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import tierlog.spark
from tests.compat.cold import GOES_COLD, PATIENCE_S, TIERED, eventually, wait_cold
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode, running
from tests.spark import topics
from tests.spark.converting import convert_share
from tests.spark.readers import agreed, options_between, store_of
from tests.spark.session import MARKS
from tests.spark.test_equality import every_codec, planned_kinds
from tierlog.client import Client
from tierlog.env import SystemClock, local_env

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = MARKS
TOPIC = "going-on"
PARTITIONS = 2
ROUNDS_MIN = 4
WORK_S = 240
"""Workers that convert have the lowest priority, and a crowded machine leaves them little."""
HISTORY = 40
"""Batches; two segments of them in a file make more than the eight that a node merges."""
WORK = (
    "tierlog_table_merged_files_total",
    "tierlog_table_converted_segments_total",
    "tierlog_tier_uploaded_segments_total",
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """Of its own: it expires without delay, and old timestamps are usual in other tests."""
    sets = ["log.retention.check.interval.ms=200"]
    with running(tmp_path_factory.mktemp("node"), sets=sets) as found:
        yield found


class Goings:
    """A thread that produces, and deletes records below what nobody reads any more."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._rng = random.Random(11)
        self._number = 0
        self._stop = threading.Event()
        self._fault: BaseException | None = None
        self.unread = dict.fromkeys(range(PARTITIONS), 0)
        """Records below may go."""

    @contextmanager
    def on(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(PATIENCE_S)
        assert not thread.is_alive()
        if self._fault is not None:
            raise self._fault

    def check(self) -> None:
        assert self._fault is None, self._fault

    def history(self) -> None:
        topics.write(self._node, TOPIC, [self._batch() for _ in range(HISTORY)])

    def _run(self) -> None:
        try:
            asyncio.run(self._go_on())
        except BaseException as fault:  # noqa: BLE001  # told by whoever waits for the thread
            self._fault = fault

    async def _go_on(self) -> None:
        env = local_env()
        host, port = self._node.address.split(":")
        async with Client([(host, int(port))], clock=env.clock, rng=env.rng) as client:
            while not self._stop.is_set():
                one = self._batch()
                await client.produce(TOPIC, one.partition, topics.encoded(one))
                await client.delete_records(TOPIC, self.unread)
                await asyncio.sleep(0.02)  # Other processes have two cores as well.

    def _batch(self) -> topics.Written:
        self._number += 1
        return every_codec(self._rng, self._number % PARTITIONS, self._number)


def bounds_at_the_seams(node: RunningNode, rng: random.Random) -> tuple[dict[int, int], ...]:
    """Of each partition two places at or beside one where tiers begin or end just now."""
    starts, ends = dict[int, int](), dict[int, int]()
    for partition, kinds in planned_kinds(node, TOPIC).items():
        edges = {at for edge in kinds.values() for at in edge}
        low, high = min(edges), max(edges)
        near = {at + by for at in edges for by in (-1, 0, 1) if low <= at + by <= high}
        # From the lower half: what lies below is deleted while it is read.
        first = rng.choice(sorted(near)[: len(near) // 2])
        starts[partition] = first
        ends[partition] = rng.choice([at for at in sorted(near) if at >= first])
    return starts, ends


def log_starts(node: RunningNode) -> list[int]:
    return [one["log_start"] for one in node.partitions(TOPIC)]


def test_readers_agree_while_records_come_and_go_and_files_are_made_and_merged(
    spark: "SparkSession", node: RunningNode
) -> None:
    admin, rng = Confluent().admin(node.address), random.Random(13)
    settings = {**TIERED, **GOES_COLD, "segment_bytes": "1024", "tierlog_table_enable": "false"}
    admin.create(TOPIC, PARTITIONS, **settings)
    goings = Goings(node)
    goings.history()
    wait_cold(node, TOPIC)
    before = topics.consumed(node, TOPIC)
    convert_share(spark, store_of(node), TOPIC, before, 0.8)
    wide = (dict.fromkeys(range(PARTITIONS), at) for at in (3, 170))
    bounds: dict[str, Any] = {**options_between(TOPIC, *wide)}
    pinned = tierlog.spark.read(
        spark, store=store_of(node), topic=TOPIC, includeHeaders=True, **bounds
    )
    marks = [node.metric(each) for each in WORK]
    admin.alter(TOPIC, tierlog_table_enable="true")
    clock = SystemClock()
    until_ms = clock.now_ms() + WORK_S * 1000
    rounds = 0
    with goings.on():
        while rounds < ROUNDS_MIN or not all(
            node.metric(each) > mark for each, mark in zip(WORK, marks, strict=True)
        ):
            assert clock.now_ms() < until_ms, [node.metric(each) for each in WORK]
            starts, ends = bounds_at_the_seams(node, rng)
            goings.unread.update(starts)
            rows = agreed(spark, node, TOPIC, starts, ends)
            assert len(rows) == sum(ends[each] - starts[each] for each in ends)
            goings.check()
            rounds += 1
        # All of the history that the pinned read saw, so that none of it is in the log any more.
        goings.unread.update(dict.fromkeys(range(PARTITIONS), 170))
        eventually(lambda: min(log_starts(node)) >= 170, "the log begins behind it")
    assert topics.collected(pinned) == [one for one in before if 3 <= one.offset < 170]
    expired_by_size(spark, node)


def expired_by_size(spark: "SparkSession", node: RunningNode) -> None:
    """Once nobody writes any more, all of what retention leaves."""
    wait_cold(node, TOPIC)
    begun = log_starts(node)
    Confluent().admin(node.address).alter(TOPIC, retention_bytes="2000")
    eventually(
        lambda: all(one > two for one, two in zip(log_starts(node), begun, strict=True)),
        "retention moves the log's start",
    )
    low, high = (
        {number: one[end] for number, one in enumerate(node.partitions(TOPIC))}
        for end in ("log_start", "high_watermark")
    )
    rows = agreed(spark, node, TOPIC, low, high)
    assert len(rows) == sum(high[each] - low[each] for each in low)
