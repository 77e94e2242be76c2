"""`make fuzz`: every fuzzer, for longer than the tests run them.

Each runs in slices of the size the tests use, so that a bound on the growth of the process judges
the same number of inputs: tracing memory itself leaks some hundred bytes an input in CPython 3.11.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING

from tests.fuzz import batches, node, test_batches, test_node, test_wire, wire

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., wire.Stats | batches.Stats | node.Stats]


def fuzz(name: str, run: Run, slice_: int, *, times: int, seed: int) -> int:
    """Run slice after slice up to the first failure, print what was seen, return the exit code."""
    outcomes: Counter[str] = Counter()
    inputs, slowest_s, failures = 0, 0.0, []
    for number in range(times):
        stats = run(seed, slice_, first=number * slice_)
        outcomes += stats.outcomes
        inputs += stats.inputs
        slowest_s = max(slowest_s, stats.slowest_s)
        failures = stats.failures
        if failures:
            break
    print(f"{name}: {inputs:,} inputs of seed {seed}, slowest {slowest_s * 1000:.1f} ms")
    for outcome, count in sorted(outcomes.items()):
        print(f"  {outcome:50} {count:11,}")
    print("\n".join(failures) if failures else "  no failure", flush=True)
    return 1 if failures else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often the inputs of the tests")
    parser.add_argument("--seed", type=int, default=2, help="other seeds make other inputs")
    chosen = parser.parse_args()
    wire.warm_up()
    times, seed = chosen.times, chosen.seed
    failed = fuzz("wire", wire.run, test_wire.INPUTS, times=times, seed=seed)
    failed |= fuzz("batches", batches.run, test_batches.INPUTS, times=times, seed=seed)
    return failed | fuzz("a node", node.run, test_node.INPUTS, times=times, seed=seed)


if __name__ == "__main__":
    sys.exit(main())
