"""The same rows, whoever reads: `tierlog.spark.read`, `format("tierlog")`, Spark's own Kafka source
and a real consumer; for random topics, random bounds, across Parquet, raw segments and hot tail.

An example takes some seconds of Spark, so there are three; TIERLOG_EQUALITY_EXAMPLES=100 asks for
more.
"""

import os
import random
from itertools import combinations, count
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tierlog.spark
from tests.compat.cold import GOES_COLD, eventually, wait_cold
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.spark import topics
from tests.spark.converting import convert_share
from tests.spark.readers import agreed, store_of
from tests.spark.session import MARKS
from tierlog.records.attributes import Codec
from tierlog.spark.options import Mode, parse_options
from tierlog.spark.plan import HotSlice, ParquetSlice, RawSlice
from tierlog.spark.reading import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = MARKS
_numbers = count()
EXAMPLES = int(os.environ.get("TIERLOG_EQUALITY_EXAMPLES", "3"))


@given(topics.topics(), st.lists(topics.bounds, min_size=2, max_size=2))
@settings(
    max_examples=EXAMPLES,
    # Each example takes seconds: shrinking one would take an hour, and the bytes are printed.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_all_readers_see_the_same_rows(
    spark: "SparkSession", node: RunningNode, topic: topics.Topic, wanted: list[topics.Bounds]
) -> None:
    name = f"equal-{next(_numbers)}"
    topics.make(node, name, topic)
    store = f"file://{node.data}-store"
    rows = topics.consumed(node, name)
    convert_share(spark, store, name, rows, topic.converted_share)
    broker = {"kafka.bootstrap.servers": node.address}
    for one in wanted:
        options = topics.options_of(name, topic, one, rows)
        due = topics.expected(name, topic, options, rows)
        given: dict[str, Any] = {"subscribe": name, "includeHeaders": "true", **broker, **options}
        by_kafka = spark.read.format("kafka").options(**given).load()
        by_source = spark.read.format("tierlog").options(**given, store=store).load()
        by_read = tierlog.spark.read(spark, store=store, **given)
        assert by_kafka.schema == by_source.schema == by_read.schema
        assert topics.collected(by_kafka) == due
        assert topics.collected(by_source) == due
        assert topics.collected(by_read) == due
        assert offsets_without_a_broker(store, given) == [
            (one.partition, one.offset)
            for one in topics.expected(name, topic, options, cold_rows(node, name, rows))
        ]


def cold_rows(node: RunningNode, name: str, rows: list[topics.Seen]) -> list[topics.Seen]:
    ends = [one["uploaded_end"] for one in node.partitions(name)]
    return [one for one in rows if one.offset < ends[one.partition]]


def offsets_without_a_broker(store: str, given: dict[str, Any]) -> list[tuple[int, int]]:
    """As they are planned from the bucket alone: times, too, are looked up there."""
    some = {name: text for name, text in given.items() if name != "kafka.bootstrap.servers"}
    some |= {"store": store, "failOnDataLoss": "false"}
    spans = plan(parse_options(some, mode=Mode.BATCH)).spans
    return [(one.name.partition, at) for one in spans for at in range(one.start, one.end)]


def test_without_a_broker_the_end_is_the_end_of_the_bucket(
    spark: "SparkSession", node: RunningNode
) -> None:
    name = f"equal-{next(_numbers)}"
    batch = topics.Written(0, Codec.LZ4, ((b"k", b"v" * 200, (), 1_700_000_000_000),) * 9)
    topic = topics.Topic(1, (batch,) * 3, (batch,), log_append_time=False, converted_share=0.0)
    topics.make(node, name, topic)
    store = f"file://{node.data}-store"
    rows = topics.consumed(node, name)
    assert len(rows) == 36
    cold = [one for one in rows if one.offset < 27]
    frame = tierlog.spark.read(spark, store=store, topic=name, includeHeaders=True)
    assert topics.collected(frame) == cold
    by_source = spark.read.format("tierlog").options(
        store=store, subscribe=name, includeHeaders="true"
    )
    assert topics.collected(by_source.load()) == cold


# Seams


TIERS = (ParquetSlice, RawSlice, HotSlice)
Kinds = dict[type, tuple[int, int]]


def planned_kinds(node: RunningNode, name: str) -> dict[int, Kinds]:
    """Where Parquet, raw segments and hot tail of each partition begin and end."""
    given = {"subscribe": name, "store": store_of(node), "kafka.bootstrap.servers": node.address}
    found: dict[int, Kinds] = {}
    for one in plan(parse_options(given, mode=Mode.BATCH)).slices:
        kinds = found.setdefault(one.name.partition, {})
        start, _ = kinds.get(type(one), (one.start, one.end))
        kinds[type(one)] = start, one.end
    return found


def every_codec(rng: random.Random, partition: int, number: int) -> topics.Written:
    """A batch of nine, with nulls and headers; its keys come again."""
    records = tuple(
        (
            b"k%d" % rng.randrange(40),
            None if rng.random() < 0.1 else b"%d-%d" % (number, each) + b"." * rng.randrange(80),
            rng.choice(((), (("a", None), ("b", b"1")), (("é", b""),))),
            1_700_000_000_000 + number,
        )
        for each in range(9)
    )
    codecs = list(Codec)
    return topics.Written(partition, codecs[number % len(codecs)], records)


def test_every_position_of_the_seams(spark: "SparkSession", node: RunningNode) -> None:
    """A partition for each pair of positions: one read tells of all of them."""
    name, rng = f"equal-{next(_numbers)}", random.Random(3)
    pairs = list(combinations(range(6), 2))
    cold, hot = (
        tuple(every_codec(rng, each, number) for each in range(len(pairs)) for number in numbers)
        for numbers in (range(6), range(6, 8))
    )
    topic = topics.Topic(len(pairs), cold, hot, log_append_time=True, converted_share=0.5)
    topics.make(node, name, topic)
    convert_share(spark, store_of(node), name, topics.consumed(node, name), topic.converted_share)
    kinds = planned_kinds(node, name)
    starts, ends = dict[int, int](), dict[int, int]()
    for partition, (first, last) in enumerate(pairs):
        (_, a), (_, b), (_, end) = (kinds[partition][kind] for kind in TIERS)
        assert 0 < a < b - 2 < b < end == 72
        positions = (a - 1, a, a + 1, b - 1, b, b + 1)
        starts[partition], ends[partition] = positions[first], positions[last]
    rows = agreed(spark, node, name, starts, ends)
    assert len(rows) == sum(ends[each] - starts[each] for each in ends)
    assert {one.timestamp_type for one in rows} == {1}


# Compaction


def test_offsets_that_a_cleaning_took_are_gone_for_everybody_and_in_every_tier(
    spark: "SparkSession", node: RunningNode
) -> None:
    name, rng = f"equal-{next(_numbers)}", random.Random(5)
    settings = {"cleanup.policy": "compact", "segment.bytes": "1024", "segment.ms": "100"}
    settings |= {"min.cleanable.dirty.ratio": "0.01", "retention.ms": "-1"}
    Confluent().admin(node.address).create(name, 1, **settings)
    topics.write(node, name, [every_codec(rng, 0, number) for number in range(20)])
    eventually(lambda: node.partitions(name)[0]["cleaned_to"] == 180, "all of it is clean")
    # All of it hot: it has no HEAD, and every segment has gaps.
    rows = agreed(spark, node, name, {0: 0}, {0: 180})
    offsets = [one.offset for one in rows]
    assert 30 <= len(offsets) <= 60
    assert len({one.key for one in rows}) == len(rows)
    # A topic that is compacted no more goes cold with the gaps that it has.
    now = {"cleanup.policy": "delete", "remote.storage.enable": "true", **GOES_COLD}
    Confluent().admin(node.address).alter(name, **now, tierlog_table_enable="false")
    wait_cold(node, name)
    topics.write(node, name, [every_codec(rng, 0, 21)])
    wait_cold(node, name)
    inside = [at for at in offsets if at + 1 not in offsets][5] + 1
    cold = convert_share(spark, store_of(node), name, rows, 0.6)
    assert cold.dead_records == 0
    kinds = planned_kinds(node, name)[0]
    assert set(kinds) == {ParquetSlice, RawSlice}
    seam = kinds[ParquetSlice][1]
    first, last = sorted((inside, seam))
    for start, end in ((0, 189), (first - 1, last + 1), (first, last), (last, 189)):
        found = agreed(spark, node, name, {0: start}, {0: end})
        assert [one for one in found if one.offset < 180] == [
            one for one in rows if start <= one.offset < end
        ]
    bare = tierlog.spark.read(spark, store=store_of(node), topic=name, includeHeaders=True)
    assert topics.collected(bare)[: len(rows)] == rows
