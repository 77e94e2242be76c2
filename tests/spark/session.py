"""Spark for the tests: one session for all of them, with the jars that `install.sh` fetched.

Small on purpose: two threads, one shuffle partition, no user interface.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from tests.stores.servers import KEY, REGION, SECRET

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent
MARKS = [
    pytest.mark.spark,
    # Spark's gateway and its workers leave sockets to the collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ENVIRONMENT = {
    # Workers take another Python otherwise; and they look for `pyspark_tierlog` on the path, where
    # an editable install has only a finder of its own.
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": f"{ROOT / 'tests/spark/path'}:{ROOT}",
    "SPARK_LOCAL_IP": "127.0.0.1",
    # Of the stores of the tests: executors find keys by the usual AWS chain.
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": REGION,
}
"""For the JVM, and for the workers that it starts."""


def jars() -> list[str]:
    """What `install.sh` fetched; none where it could not."""
    said = subprocess.run(
        [ROOT / "tests/spark/jars/prepare.sh", "--path"], capture_output=True, text=True, check=True
    )
    return sorted(str(one) for one in Path(said.stdout.strip()).glob("jars/*.jar"))


def missing(what: str) -> None:
    sentence = f"{what} is missing: tests/spark/install.sh gets it"
    if os.environ.get("CI") == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


@contextmanager
def session(folder: Path, **confs: str) -> Iterator["SparkSession"]:
    """A driver in this process, its JVM beside it; one that is there already is shared."""
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        yield active
        return
    building = (
        SparkSession.builder.master("local[2]")
        .appName("tierlog tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.python.worker.reuse", "true")
        .config("spark.jars", ",".join(jars()))
    )
    for name, value in confs.items():
        building = building.config(name, value)
    with mock.patch.dict(os.environ, ENVIRONMENT):
        spark = building.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
