"""Everybody who can read a topic, asked for the same offsets: the rows must be the same."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tierlog.spark
from tests.compat.node import RunningNode
from tests.spark import topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.topics import Seen

Ends = Mapping[int, int]
"""An offset of each partition."""


def store_of(node: RunningNode) -> str:
    return f"file://{node.data}-store"


def options_between(name: str, starts: Ends, ends: Ends) -> dict[str, str]:
    return {
        option: json.dumps({name: {str(each): at for each, at in by.items()}})
        for option, by in (("startingOffsets", starts), ("endingOffsets", ends))
    }


def agreed(
    spark: "SparkSession", node: RunningNode, name: str, starts: Ends, ends: Ends
) -> list["Seen"]:
    """What a real consumer reads, once Spark's Kafka source, `format("tierlog")` and
    `tierlog.spark.read` have read the same."""
    due = topics.consumed(node, name, starts=starts, ends=ends)
    given: dict[str, Any] = {
        "subscribe": name,
        "includeHeaders": "true",
        "kafka.bootstrap.servers": node.address,
        **options_between(name, starts, ends),
    }
    by_read = tierlog.spark.read(spark, store=store_of(node), **given)
    assert topics.collected(by_read) == due
    by_source = spark.read.format("tierlog").options(**given, store=store_of(node)).load()
    assert topics.collected(by_source) == due
    assert topics.collected(spark.read.format("kafka").options(**given).load()) == due
    return due
