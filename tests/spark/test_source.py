"""`format("tierlog")` and `tierlog.spark.read`: the traps of Spark's Python data sources, each seen
not to snap, and what a user meets who makes a mistake."""

import json
from itertools import count
from typing import TYPE_CHECKING

import pytest

import tierlog.spark
from tests.compat.node import RunningNode
from tests.spark import topics
from tests.spark.session import MARKS
from tierlog.records.attributes import Codec
from tierlog.spark.errors import DataLost, NotReadable, OptionRefused
from tierlog.spark.source import install

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

pytestmark = MARKS
TOPIC = "source"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_numbers = count()


@pytest.fixture(scope="module")
def store(node: RunningNode) -> str:
    """30 records in each of two partitions, all cold."""
    batches = [
        topics.Written(
            number % 2,
            Codec.ZSTD,
            tuple((b"k", b"v" * 200, (("h", b"1"),), 1_700_000_000_000 + number) for _ in range(5)),
        )
        for number in range(12)
    ]
    topics.make(
        node, TOPIC, topics.Topic(2, tuple(batches), (), log_append_time=False, converted_share=0)
    )
    return f"file://{node.data}-store"


def reader(spark: "SparkSession", store: str, **options: str) -> "DataFrameReader":
    return spark.read.format("tierlog").options(store=store, subscribe=TOPIC, **options)


BOUNDED = {
    "startingOffsets": json.dumps({TOPIC: {"0": 3, "1": 4}}),
    "endingOffsets": json.dumps({TOPIC: {"0": 10, "1": 6}}),
}


@pytest.mark.parametrize("spelt", [str, str.lower, str.upper])
def test_a_bounded_read_is_bounded_however_its_options_are_spelt(
    spark: "SparkSession", store: str, spelt: "type[str]"
) -> None:
    options = {spelt(name): text for name, text in BOUNDED.items()}
    assert reader(spark, store, **options).load().count() == 7 + 2


def test_an_empty_range_has_no_rows(spark: "SparkSession", store: str) -> None:
    same = json.dumps({TOPIC: {"0": 3, "1": 4}})
    frame = reader(spark, store, startingOffsets=same, endingOffsets=same).load()
    assert frame.collect() == []
    found = tierlog.spark.read(
        spark, store=store, topic=TOPIC, startingOffsets=same, endingOffsets=same
    )
    assert found.collect() == []
    assert found.schema == frame.schema


def test_a_schema_chooses_columns(spark: "SparkSession", store: str) -> None:
    frame = (
        reader(spark, store)
        .schema("offset bigint, partition int, headers array<struct<key:string,value:binary>>")
        .load()
    )
    rows = frame.collect()
    assert len(rows) == 60
    assert sorted(row.offset for row in rows if row.partition == 1) == list(range(30))
    assert rows[0].headers[0].key == "h"


@pytest.mark.parametrize(
    ("schema", "says"), [("offset int", "offset is bigint"), ("colour string", "no column colour")]
)
def test_a_schema_that_is_not_ours_is_refused(
    spark: "SparkSession", store: str, schema: str, says: str
) -> None:
    with pytest.raises(Exception, match=says):
        reader(spark, store).schema(schema).load().collect()


def test_an_option_that_is_not_known_is_refused(spark: "SparkSession", store: str) -> None:
    with pytest.raises(Exception, match=r"did you mean startingOffsets\?"):
        reader(spark, store, startingOffset="earliest").load()
    with pytest.raises(OptionRefused, match=r"did you mean startingOffsets\?"):
        tierlog.spark.read(spark, store=store, topic=TOPIC, startingOffset="earliest")


@pytest.mark.parametrize("allowed", ["true", "false"])
@pytest.mark.parametrize("asked", ["true", "false"])
def test_filters_are_pushed_only_where_both_sides_want_it(
    spark: "SparkSession", store: str, allowed: str, asked: str
) -> None:
    spark.conf.set(PUSHDOWN, allowed)
    try:
        frame = reader(spark, store, pushFilters=asked).load()
        wanted = frame.where("offset >= 27 and partition = 1 and timestamp > '2020-01-01'")
        if (asked, allowed) == ("true", "false"):
            with pytest.raises(Exception, match="filterPushdown"):
                wanted.collect()
        else:
            assert sorted(row.offset for row in wanted.collect()) == [27, 28, 29]
    finally:
        spark.conf.unset(PUSHDOWN)


def test_one_word_leads_from_kafka_to_tierlog(
    spark: "SparkSession", node: RunningNode, store: str
) -> None:
    def query(name: str) -> list[topics.Seen]:
        options = {"kafka.bootstrap.servers": node.address, "subscribe": TOPIC}
        frame = spark.read.format(name).options(**options, includeHeaders="true").load()
        return topics.collected(frame)

    spark.conf.set("spark.tierlog.store", store)
    try:
        found = query("tierlog")
        assert len(found) == 60
        assert found == query("kafka")
    finally:
        spark.conf.unset("spark.tierlog.store")


def test_install_binds_the_store_of_a_session(spark: "SparkSession", store: str) -> None:
    other = spark.newSession()
    other.conf.set("spark.tierlog.store", store)
    install(other)
    frame = other.read.format("tierlog").options(subscribe=TOPIC, minPartitions="4").load()
    assert frame.rdd.getNumPartitions() >= 4  # Planned before it ran, not by one task.
    assert frame.count() == 60


def test_without_a_store_the_error_says_what_to_do(spark: "SparkSession", store: str) -> None:
    with pytest.raises(Exception, match="give the option store"):
        spark.read.format("tierlog").option("subscribe", TOPIC).load().collect()
    with pytest.raises(OptionRefused, match=r"spark\.tierlog\.store"):
        tierlog.spark.read(spark, topic=TOPIC)
    with pytest.raises(OptionRefused, match=r"spark\.tierlog\.store"):
        install(spark)


def test_what_is_not_there_is_told(spark: "SparkSession", store: str) -> None:
    with pytest.raises(NotReadable, match=r"did you mean source\?"):
        tierlog.spark.read(spark, store=store, topic="sourc")
    with pytest.raises(NotReadable, match="there is no folder"):
        tierlog.spark.read(spark, store="file:///nowhere/at/all", topic=TOPIC)
    with pytest.raises(NotReadable, match="source-1 has no offset"):
        tierlog.spark.read(
            spark, store=store, topic=TOPIC, startingOffsets=json.dumps({TOPIC: {"0": 1}})
        )
    beyond = json.dumps({TOPIC: {"0": 31, "1": 1}})
    with pytest.raises(DataLost, match="failOnDataLoss=false"):
        tierlog.spark.read(spark, store=store, topic=TOPIC, startingOffsets=beyond)
    kept = tierlog.spark.read(
        spark, store=store, topic=TOPIC, startingOffsets=beyond, failOnDataLoss=False
    )
    assert kept.count() == 29


def test_explain_tells_before_anything_runs(
    spark: "SparkSession", store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tierlog.spark.read(spark, store=store, topic=TOPIC, explain=True)
    said = capsys.readouterr().out
    assert "tierlog: source, 2 partitions, 60 offsets" in said
    assert "GETs, $0.0000" in said


def test_lineage_on_demand(spark: "SparkSession", store: str) -> None:
    frame = tierlog.spark.read(spark, store=store, topic=TOPIC, includeLineage=True)
    rows = frame.select("offset", "batch_base_offset", "is_control").collect()
    assert {row.batch_base_offset for row in rows} == {0, 5, 10, 15, 20, 25}
    assert all(row.batch_base_offset <= row.offset < row.batch_base_offset + 5 for row in rows)


def test_topics_by_pattern_and_partitions_by_name(spark: "SparkSession", store: str) -> None:
    given = spark.read.format("tierlog").option("store", store)
    assert given.option("subscribePattern", "sour.e").load().count() == 60
    given = spark.read.format("tierlog").option("store", store)
    assert given.option("assign", json.dumps({TOPIC: [1]})).load().count() == 30


def test_more_tasks_when_asked(spark: "SparkSession", store: str) -> None:
    assert reader(spark, store, minPartitions="8").load().rdd.getNumPartitions() >= 8
    fine = reader(spark, store, maxRecordsPerPartition="7").load()
    assert max(fine.rdd.glom().map(len).collect()) <= 7
    assert fine.count() == 60
