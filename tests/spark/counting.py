"""Bytes that Spark has read, as Spark counts them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def input_bytes(spark: "SparkSession") -> int:
    """By all stages of this session so far."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.jvm
    context = spark.sparkContext._jsc.sc()
    # What the last stage told may still be on its way.
    context.listenerBus().waitUntilEmpty()
    none, no_shares = jvm.java.util.ArrayList(), gateway.new_array(jvm.double, 0)
    stages = context.statusStore().stageList(none, False, False, no_shares, none)
    return int(sum(stages.apply(number).inputBytes() for number in range(stages.size())))
