"""The package by itself, as another project would take it."""

import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "cost_model"
PROGRAM = """
import sys

sys.modules["tierlog"] = None  # Whoever imports it fails.
sys.path.insert(0, sys.argv[1])
import cost_model
from cost_model import plan, scenario
from cost_model.montecarlo import montecarlo
from cost_model.optimise import optimise

assert cost_model.__file__.startswith(sys.argv[1]), cost_model.__file__
made = scenario(
    workload={"write": "30 MB/s", "retention": "7 d"},
    uncertainty={"workload.write": {"low": "10 MB/s", "high": "50 MB/s"}},
)
assert montecarlo(made, count=100).percentile(50) > 0
assert optimise(made).bill.total <= plan(made).total
print(plan(made).total)
"""


def test_a_copy_of_the_folder_works_where_there_is_no_tierlog(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "cost_model", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 1000
