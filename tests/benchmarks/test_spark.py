"""Spark is measured, at its smallest: same plan and files as plain Spark, and figures for all."""

import math
import os
from pathlib import Path

import pytest

from benchmarks import gauge, harness, modules, sparkbeside
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
    assert {one.hold for one in readings if one.hold is not None} == {0.8, 2.0, 5.0, 0.02, 1.5}
    assert all(math.isfinite(one.value.median) for one in readings)
    assert all(one.value.median > 0 for one in readings if one.figure != sparkbeside.CORES)
