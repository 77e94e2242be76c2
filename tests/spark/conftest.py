"""Fixtures: one Spark session and one node for all tests of this folder."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.compat.node import RunningNode, running
from tests.spark.session import jars, missing, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    if shutil.which("java") is None:
        missing("Java")
    if not jars():
        missing("the jars of Spark's Kafka source and s3a")
    with session(tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """On the folder store beside its data. It cleans compacted topics without delay."""
    sets = ["log.cleaner.backoff.ms=20"]
    with running(tmp_path_factory.mktemp("node"), sets=sets) as found:
        yield found
