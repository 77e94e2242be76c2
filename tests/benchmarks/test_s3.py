"""The comparison on MinIO runs at its smallest."""

import math
import os
from pathlib import Path

import pytest

from benchmarks import gauge, harness, modules


@pytest.mark.store
def test_both_clients_read_and_write_the_same(tmp_path: Path) -> None:
    size = harness.smoke(tmp_path)
    try:
        rows, _ = gauge.run_all(modules.load("s3")(size), size)
    except harness.Unavailable as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    assert len(rows) == 6
    assert all(math.isfinite(row.ratio.median) and row.ratio.median > 0 for row in rows)
