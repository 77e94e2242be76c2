"""`make fuzz`: every fuzzer, for longer than the tests run them.

Each module beside this one has `main(count, seed=...)`, which prints a table and returns an exit
code; the tests run a twentieth of these inputs.
"""

from __future__ import annotations

import argparse
import sys

from tests.fuzz import batches, test_batches, test_wire, wire


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often the inputs of the tests")
    parser.add_argument("--seed", type=int, default=2, help="other seeds make other inputs")
    chosen = parser.parse_args()
    failed = wire.main(test_wire.INPUTS * chosen.times, seed=chosen.seed)
    failed |= batches.main(test_batches.INPUTS * chosen.times, seed=chosen.seed)
    return failed


if __name__ == "__main__":
    sys.exit(main())
