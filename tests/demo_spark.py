"""The last step of `make demo`: Spark over history in the bucket, with every broker gone."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.spark.counting import input_bytes

Say = Callable[[str], None]


def missing() -> str | None:
    """What is not here, and how to get it."""
    try:
        import pyspark  # noqa: F401  (only whether it is there)
    except ImportError:
        return "Spark is not installed: pip install 'tierlog[spark]'"
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "Spark needs Java 17 or later: apt install default-jre-headless"
    return None


def query(store: str, topic: str, records: int, say: Say) -> None:
    if (sentence := missing()) is not None:
        say(f"   left out. {sentence}; then run this again")
        return
    with silenced():
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as f

        root = Path(__file__).resolve().parent.parent
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYTHONPATH"] = f"{root / 'tests/spark/path'}:{root}"
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
    try:
        import tierlog.spark
        from tierlog.spark.converting import convert
        from tierlog.spark.stores import StorePlace

        # What the node has not converted before it was stopped, or all of it.
        with silenced():
            made = convert(spark, StorePlace(url=store), topics=[topic])
        say(
            f"   what the node had not converted yet: {made.rows:,} rows in {made.files} files, "
            f"{made.read_bytes:,} bytes of batches are {made.written_bytes:,} of Parquet"
        )
        say(f"\n   >>> tierlog.spark.read(spark, store=..., topic={topic!r}, explain=True)")
        with said(say):
            orders = tierlog.spark.read(spark, store=store, topic=topic, explain=True)
        say("\n   >>> orders.groupBy('partition').agg(count('*'), max('offset'), max('timestamp'))")
        began = time.monotonic()
        found = orders.groupBy("partition").agg(
            f.count("*").alias("rows"), f.max("offset").alias("last"), f.max("timestamp")
        )
        with silenced():
            rows = sorted(found.collect())
        took = time.monotonic() - began
        for row in rows:
            say(f"   partition {row[0]}: {row[1]:,} rows, offsets to {row[2]:,}, newest {row[3]}")
        total = sum(row[1] for row in rows)
        assert total == records, f"Spark found {total} of {records} records"
        files = len(orders.inputFiles())
        say(
            f"   {total:,} rows in {took:.1f} s; {files} Parquet files by Spark's own reader, "
            f"{input_bytes(spark):,} bytes of them read"
        )
    finally:
        spark.stop()


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """The JVM talks to stderr while it starts."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def said(say: Say) -> Iterator[None]:
    """What is printed meanwhile, in the demo's margin."""
    import io

    held = io.StringIO()
    with contextlib.redirect_stdout(held):
        yield
    for line in held.getvalue().splitlines():
        say(f"   {line}")
