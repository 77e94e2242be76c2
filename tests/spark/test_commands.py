"""`tierlog spark`: the jobs as commands, on the session of the tests; and what needs no Spark."""

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from tests.compat.drivers.confluent import Confluent
from tests.compat.node import RunningNode
from tests.spark import topics
from tests.spark.session import MARKS
from tierlog.cli.app import app
from tierlog.records.attributes import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = MARKS
TOPIC = "commanded"


@pytest.fixture(scope="module")
def store(node: RunningNode) -> str:
    batch = topics.Written(
        0,
        Codec.GZIP,
        tuple((b"k%d" % (each % 3), b"v" * 300, (), 1_700_000_000_000 + each) for each in range(9)),
    )
    topic = topics.Topic(1, (batch,) * 4, (), log_append_time=False, converted_share=0)
    topics.make(node, TOPIC, topic)
    return f"file://{node.data}-store"


def told(*words: str, code: int = 0) -> str:
    ended = CliRunner().invoke(app, ["spark", *words])
    assert ended.exit_code == code, ended.output
    return ended.output


def test_convert_verify_and_replay(spark: "SparkSession", node: RunningNode, store: str) -> None:
    said = told("convert", TOPIC, "--store", store)
    assert said.startswith("36 rows of 1 partitions in 1 files: ")
    assert json.loads(told("convert", TOPIC, "--store", store, "--json"))["files"] == 0
    said = told("verify", TOPIC, "--store", store)
    assert said.endswith(": sound\n")
    assert "and 1 Parquet files of 1 partitions" in said
    assert json.loads(told("verify", TOPIC, "--store", store, "--json"))["findings"] == []
    Confluent().admin(node.address).create("target", 1)
    replay = ["replay", TOPIC, "target", "--store", store, "--bootstrap", node.address]
    said = told(*replay, "--from", "5", "--to", "30", "--key", "k1", "--key", "k2")
    assert said == "commanded-0: 17 records into target\n"
    said = told(*replay, "--from", "5", "--to", "30", "--key", "k1", "--key", "k2")
    assert said == "commanded-0: 0 records into target, going on from offset 30\n"
    assert {one.key for one in topics.consumed(node, "target")} == {b"k1", b"k2"}
    # Who says that there was no earlier run is believed.
    said = told(*replay, "--from", "5", "--to", "30", "--key", "k1", "--key", "k2", "--fresh")
    assert said == "commanded-0: 17 records into target\n"


def test_what_cannot_be_done_is_told_in_a_sentence(
    spark: "SparkSession", node: RunningNode, store: str
) -> None:
    said = told("verify", "nothing", "--store", store, code=1)
    assert said == "tierlog: there is no topic nothing in the store\n"
    words = ["replay", TOPIC, "nowhere", "--store", store, "--bootstrap", node.address]
    assert "create it first" in told(*words, code=1)


def test_help_needs_no_spark() -> None:
    code = (
        "import sys; from tierlog.cli.app import app; from typer.testing import CliRunner; "
        "ended = CliRunner().invoke(app, ['spark', 'replay', '--help']); "
        "assert ended.exit_code == 0, ended.output; "
        "assert not {'pyspark', 'pyarrow', 'numba'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
