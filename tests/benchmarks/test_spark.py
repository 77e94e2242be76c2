"""Spark is measured, at its smallest: same plan and files as plain Spark, and figures for all."""

import math
import os
from pathlib import Path

import pytest

from benchmarks import gauge, harness, modules
from tests.spark.session import MARKS

pytestmark = MARKS


def test_every_reader_gives_figures(tmp_path: Path) -> None:
    size = harness.smoke(tmp_path)
    try:
        _, readings = gauge.run_all(modules.load("spark")(size), size)
    except harness.Unavailable as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    assert len(readings) == 4 * 2 + 1
    assert all(math.isfinite(one.value.median) and one.value.median > 0 for one in readings)
