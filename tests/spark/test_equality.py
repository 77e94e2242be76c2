"""The same rows, whoever reads: `tierlog.spark.read`, `format("tierlog")`, Spark's own Kafka source
and a real consumer; for random topics, random bounds, across Parquet, raw segments and hot tail.
"""

from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tierlog.spark
from tests.compat.node import RunningNode
from tests.spark import topics
from tests.spark.converting import convert_share
from tests.spark.session import MARKS
from tierlog.records.attributes import Codec
from tierlog.spark.options import Mode, parse_options
from tierlog.spark.reading import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = MARKS
_numbers = count()


@given(topics.topics(), st.lists(topics.bounds, min_size=2, max_size=2))
@settings(
    max_examples=3,
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
