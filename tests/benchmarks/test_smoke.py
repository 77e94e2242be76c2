"""Every bench module runs at its smallest and compares something. Times are not judged here."""

import math
from pathlib import Path

import pytest

from benchmarks import harness, modules


@pytest.mark.parametrize("name", modules.names())
def test_bench_module_runs_and_gives_finite_ratios(name: str, tmp_path: Path) -> None:
    size = harness.smoke(tmp_path)
    rows = [row for comparison in modules.load(name)(size) for row in harness.run(comparison, size)]
    assert rows
    assert all(math.isfinite(row.ratio.median) and row.ratio.median > 0 for row in rows)
