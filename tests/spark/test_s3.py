"""A bucket behind a real S3 service: by s3a, Spark's own way, and without any jar."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tierlog.spark
from tests.compat.cold import place_of
from tests.spark import topics
from tests.spark.converting import convert_share
from tests.spark.session import MARKS
from tierlog.records.attributes import Codec
from tierlog.spark import reading
from tierlog.spark.options import Mode, parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.stores.servers import Server

pytestmark = [*MARKS, pytest.mark.store]


def batch(number: int) -> topics.Written:
    records = tuple(
        (b"k%d" % each, b"v" * 300, (), 1_700_000_000_000 + number) for each in range(8)
    )
    return topics.Written(0, list(Codec)[number % 5], records)


@pytest.mark.parametrize("name", ["minio", "seaweed"])
def test_rows_of_a_bucket_with_jars_and_without(
    spark: "SparkSession",
    name: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server: Server = request.getfixturevalue(f"{name}_server")
    for variable, value in server.environment().items():
        monkeypatch.setenv(variable, value)
    place = place_of(server, prefix=f"spark-{name}")
    assert place.url is not None
    topic = topics.Topic(
        1, tuple(map(batch, range(10))), (batch(11),), log_append_time=False, converted_share=0.5
    )
    with place.running(tmp_path) as node:
        topics.make(node, "far", topic)
        rows = topics.consumed(node, "far")
        convert_share(spark, place.url, "far", rows, 0.5, endpoint=server.endpoint)
        assert len(rows) == 88
        options = {"s3.endpoint": server.endpoint, "kafka.bootstrap.servers": node.address}
        given = {"store": place.url, "subscribe": "far", "includeHeaders": "true", **options}
        by_source = spark.read.format("tierlog").options(**given).load()
        assert topics.collected(by_source) == rows
        # s3a keeps one connection to a bucket of that name: it is asked of one server only.
        if name != "minio":
            monkeypatch.setattr(reading, "S3A_CLASS", "no.such.Class")
        with caplog.at_level(logging.WARNING, "tierlog.spark"):
            planned = reading.plan(parse_options(given, mode=Mode.BATCH))
            by_read = reading.frame_of(spark, planned)
            assert topics.collected(by_read) == rows
        cost = planned.cost()
        assert cost.parquet_files >= 1
        assert cost.raw_segments >= 1
        assert cost.hot_offsets == 8
        assert ("docs/spark.md has the jars" in caplog.text) == (name != "minio")
        files = by_read.inputFiles()
        assert bool(files) == (name == "minio")
        assert all(one.startswith("s3a://tierlog/spark-minio/") for one in files)
    assert tierlog.spark.read is reading.read
