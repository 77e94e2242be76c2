"""Every bench module runs at its smallest and compares something. Times are not judged here.

A module whose tools are missing (no C compiler) is skipped; under CI=true that is a failure.
"""

import math
import os
from pathlib import Path

import pytest

from benchmarks import harness, modules


def all_rows(name: str, size: harness.Size) -> list[harness.Row]:
    return [row for comparison in modules.load(name)(size) for row in harness.run(comparison, size)]


@pytest.mark.parametrize("name", modules.names())
def test_bench_module_runs_and_gives_finite_ratios(name: str, tmp_path: Path) -> None:
    try:
        rows = all_rows(name, harness.smoke(tmp_path))
    except harness.Unavailable as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    assert rows
    assert all(math.isfinite(row.ratio.median) and row.ratio.median > 0 for row in rows)
