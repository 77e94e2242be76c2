"""The cold tier on MinIO is measured, at its smallest."""

import math
import os
from pathlib import Path

import pytest

from benchmarks import gauge, harness, modules


@pytest.mark.store
def test_every_part_of_the_cold_road_gives_figures(tmp_path: Path) -> None:
    size = harness.smoke(tmp_path)
    try:
        _, readings = gauge.run_all(modules.load("cold")(size), size)
    except harness.Unavailable as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    assert all(math.isfinite(one.value.median) for one in readings)
    by_figure = {(one.gauge, one.figure): one.value.median for one in readings}
    first = "first record of a random cold offset"
    assert by_figure[first, "round trips, at most"] <= 3
    assert by_figure[first, "GETs, at most"] <= 3
    assert by_figure["an offset among 10,000 segments, knowing HEAD alone", "page GETs"] <= 2
