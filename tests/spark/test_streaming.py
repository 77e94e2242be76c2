"""Streams of `format("tierlog")`: limits, checkpoints, restarts. Every row once in the sink."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compat.cold import eventually, make_cold
from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.spark import topics
from tests.spark.session import ENVIRONMENT, MARKS, ROOT
from tierlog.records.attributes import Codec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = MARKS
_numbers = count()
PATIENCE_S = 120
STARTS_MAX = 5
SLOW_PYTHON = "Python worker failed to connect"


def written(number: int, size: int) -> topics.Written:
    """A batch of records that no other batch has."""
    records = tuple(
        (b"%d" % number, b"%d-%d" % (number, each) + b"." * 80, (), 1_700_000_000_000 + number)
        for each in range(size)
    )
    codecs = list(Codec)
    return topics.Written(number % 2, codecs[number % len(codecs)], records)


def made(node: RunningNode) -> tuple[str, topics.Topic]:
    name = f"stream-{next(_numbers)}"
    topic = topics.Topic(
        partitions=2,
        cold=tuple(written(number, 10) for number in range(12)),
        hot=(),
        log_append_time=False,
        converted_share=0.0,
    )
    topics.make(node, name, topic)
    return name, topic


def frame(spark: "SparkSession", node: RunningNode, name: str, **options: str) -> "DataFrame":
    given = {"subscribe": name, "startingOffsets": "earliest", **options}
    given["store"] = f"file://{node.data}-store"
    return spark.readStream.format("tierlog").options(**given).load()


def started(found: "DataFrame", folder: Path, **trigger: bool) -> "StreamingQuery":
    writer = found.writeStream.trigger(**trigger) if trigger else found.writeStream
    return (
        writer.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def drained(found: "DataFrame", folder: Path, **trigger: bool) -> None:
    """Run a stream until it has read what there is."""
    for _ in range(STARTS_MAX):
        query = started(found, folder, **trigger)
        try:
            if trigger:
                assert query.awaitTermination(PATIENCE_S)
            else:
                query.processAllAvailable()
        except Exception as error:
            # Spark gives a new Python process ten seconds, which a crowded machine may not have. A
            # stream that fails is started again, from its checkpoint.
            if SLOW_PYTHON not in str(error):
                raise
        else:
            return
        finally:
            query.stop()
    raise AssertionError(f"Spark's Python did not start in {STARTS_MAX} tries")


def wait_for_files(folder: Path, query: "StreamingQuery", wanted: int) -> None:
    def are_there() -> bool:
        return len(list(folder.glob("sink/*.parquet"))) >= wanted or not query.isActive

    eventually(are_there, f"the sink has {wanted} files")


def sunk(spark: "SparkSession", folder: Path) -> Counter[tuple[int, int]]:
    rows = spark.read.parquet(str(folder / "sink")).select("partition", "offset").collect()
    return Counter((row.partition, row.offset) for row in rows)


def offsets_of(folder: Path) -> list[dict[str, dict[str, int]]]:
    """The last line of each batch's offsets in the checkpoint."""
    found = sorted((folder / "checkpoint/offsets").glob("[0-9]*"), key=lambda one: int(one.name))
    return [json.loads(one.read_text().splitlines()[-1]) for one in found]


def test_a_limited_stream_moves_in_steps_and_its_checkpoint_has_the_shape_of_kafka(
    spark: "SparkSession", node: RunningNode, tmp_path: Path
) -> None:
    name, _ = made(node)
    drained(frame(spark, node, name, MAXOFFSETSPERTRIGGER="50"), tmp_path)
    steps = [offsets[name] for offsets in offsets_of(tmp_path)]
    assert steps[-1] == {"0": 60, "1": 60}
    ends = [sum(step.values()) for step in steps]
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    assert len(sizes) >= 3
    assert max(sizes) <= 50
    assert sum(sunk(spark, tmp_path).values()) == 120


def test_a_stream_that_is_stopped_anywhere_writes_each_row_once(
    spark: "SparkSession", node: RunningNode, tmp_path: Path
) -> None:
    name, topic = made(node)
    chance = random.Random(7)
    numbers = count(len(topic.cold))
    for _ in range(3):
        found = frame(spark, node, name, maxOffsetsPerTrigger="17")
        query = started(found, tmp_path)
        # Somewhere inside of a batch: a number of files, some of them of a batch that is not done.
        files = len(list(tmp_path.glob("sink/*.parquet")))
        wanted = files + chance.randrange(1, 4)
        wait_for_files(tmp_path, query, wanted)
        query.stop()
        assert query.exception() is None or SLOW_PYTHON in str(query.exception())
        topics.write(node, name, [written(next(numbers), 5)])
        make_cold(node, name)
    drained(frame(spark, node, name, maxOffsetsPerTrigger="40"), tmp_path)
    rows = topics.consumed(node, name)
    assert len(rows) == 135
    assert sunk(spark, tmp_path) == Counter((one.partition, one.offset) for one in rows)


KILLS = 3
DRIVER_S = 400
"""A JVM and three Pythons begin; seconds, but a crowded machine makes minutes of them."""
TRACES = {
    "checkpoint/offsets": "a batch is planned",
    "sink": "a file of a batch is written",
    "sink/_spark_metadata": "the files of a batch count",
    "checkpoint/commits": "a batch is done",
}
"""What a stream leaves on its way, and what it means."""


def traces(folder: Path, kind: str) -> int:
    return sum(one.is_file() and not one.name.startswith(".") for one in folder.glob(f"{kind}/*"))


@contextmanager
def driving(store: str, name: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in a process of its own; at the end it and its JVM are killed."""
    words = [sys.executable, "-m", "tests.spark.stream_driver", store, name, str(folder)]
    environment = {**os.environ, **ENVIRONMENT}
    with (folder / "driver.log").open("ab") as log:
        driver = subprocess.Popen(
            words, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield driver
    finally:
        # Both at once, as when a machine goes: neither can tidy up for the other.
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def test_a_stream_whose_driver_is_killed_anywhere_writes_each_row_once(
    spark: "SparkSession", node: RunningNode, tmp_path: Path
) -> None:
    name, topic = made(node)
    chance, numbers = random.Random(17), count(len(topic.cold))
    store = f"file://{node.data}-store"
    for kind in chance.sample(list(TRACES), KILLS):
        wanted = traces(tmp_path, kind) + chance.randrange(1, 3)
        with driving(store, name, tmp_path) as driver:
            eventually(
                lambda wanted=wanted, kind=kind, driver=driver: (  # type: ignore[misc]  # of now
                    traces(tmp_path, kind) >= wanted or driver.poll() is not None
                ),
                TRACES[kind],
                patience_s=DRIVER_S,
            )
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
        topics.write(node, name, [written(next(numbers), 5)])
        make_cold(node, name)
    with driving(store, name, tmp_path) as driver:
        assert driver.wait(DRIVER_S) == 0, (tmp_path / "driver.log").read_text()[-4000:]
    rows = topics.consumed(node, name)
    assert len(rows) == 120 + 5 * KILLS
    assert sunk(spark, tmp_path) == Counter((one.partition, one.offset) for one in rows)


def test_available_now_reads_what_is_there_and_ends(
    spark: "SparkSession", node: RunningNode, tmp_path: Path
) -> None:
    name, _ = made(node)
    for due in (120, 125):
        drained(frame(spark, node, name), tmp_path, availableNow=True)
        assert sum(sunk(spark, tmp_path).values()) == due
        topics.write(node, name, [written(100, 5)])
        make_cold(node, name)


def test_a_stream_with_a_broker_goes_on_into_the_hot_tail(
    spark: "SparkSession", node: RunningNode, tmp_path: Path
) -> None:
    name, _ = made(node)
    found = frame(spark, node, name, **{"kafka.bootstrap.servers": node.address})
    drained(found, tmp_path)
    topics.write(node, name, [written(1, 7), written(2, 8)])
    drained(found, tmp_path)
    rows = topics.consumed(node, name)
    assert len(rows) == 135
    assert sunk(spark, tmp_path) == Counter((one.partition, one.offset) for one in rows)


def test_a_topic_that_is_made_anew_ends_a_stream_or_is_read_from_its_beginning(
    spark: "SparkSession", node: RunningNode, tmp_path: Path
) -> None:
    name, topic = made(node)
    query = started(frame(spark, node, name), tmp_path)
    try:
        query.processAllAvailable()
        Confluent().admin(node.address).delete(name)
        # Longer than what was read: offsets alone do not tell.
        longer = tuple(written(number, 11) for number in range(12))
        topics.make(node, name, replace(topic, cold=longer))
        with pytest.raises(Exception, match=f"{name}.*(is gone|made anew).*new checkpoint"):
            query.awaitTermination(PATIENCE_S)
    finally:
        query.stop()
    Confluent().admin(node.address).delete(name)
    topics.make(node, name, replace(topic, cold=(written(0, 7), written(1, 8))))
    with pytest.raises(Exception, match="ends at offset 7, and the stream has read it up to 60"):
        drained(frame(spark, node, name), tmp_path)
    drained(frame(spark, node, name, failOnDataLoss="false"), tmp_path)
    assert sum(sunk(spark, tmp_path).values()) == 120 + 15
    assert offsets_of(tmp_path)[-1] == {name: {"0": 7, "1": 8}}


def test_a_stream_refuses_an_end(spark: "SparkSession", node: RunningNode, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="has no end"):
        drained(frame(spark, node, "x", endingOffsets="latest"), tmp_path)
