"""Search through legal disk states after power cuts: `python -m tests.powerloss.search`.

One seed makes one history; moments inside it are cut; from each moment many legal states are drawn
and recovered. Prints a table and exits 1 when a promise was broken; a failure names its seed and
the command that replays it.
"""

import argparse
import logging
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from random import Random

from tests.powerloss.check import Violation, check, check_cut_recovery
from tests.powerloss.history import History, moments

STEPS = 40
MOMENTS = 12
DRAWS = 4


@dataclass(slots=True)
class Found:
    hashes: set[str] = field(default_factory=set)
    checked: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        self.hashes |= other.hashes
        self.checked += other.checked
        self.failures += other.failures


def search_seed(seed: int, *, make: Callable[[int], History] = History) -> Found:
    """All moments and draws of one seed; stops at its first failure."""
    found = Found()
    rng = Random(seed)
    for number, (disk, known) in enumerate(moments(seed, steps=STEPS, count=MOMENTS, make=make)):
        for draw in range(DRAWS):
            state = disk.after_power_cut(rng)
            found.hashes.add(state.state_hash())
            found.checked += 1
            try:
                if draw % 2:
                    check_cut_recovery(state, known, rng)
                else:
                    check(state, known, rng)
            except Exception as violation:  # noqa: BLE001 - whatever it raises, it is a finding
                found.failures.append(
                    f"seed {seed}, moment {number}, draw {draw}: {describe(violation)}\n"
                    f"  replay: python -m tests.powerloss.search --seed {seed}"
                )
                return found
    return found


def describe(fault: Exception) -> str:
    if isinstance(fault, Violation):
        return str(fault)
    return "".join(traceback.format_exception(fault)[-6:])


def search(seeds: range, *, processes: int = 1) -> Found:
    total = Found()
    if processes == 1:
        for seed in seeds:
            total.add(search_seed(seed))
        return total
    with ProcessPoolExecutor(processes) as pool:
        for found in pool.map(search_seed, seeds, chunksize=8):
            total.add(found)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=50_000, help="distinct states to reach")
    parser.add_argument("--seed", type=int, help="replay one seed")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    total = Found()
    first = options.seed if options.seed is not None else 0
    while not total.failures and (len(total.hashes) < options.states):
        batch = range(first, first + (1 if options.seed is not None else 64))
        total.add(search(batch, processes=1 if options.seed is not None else options.processes))
        first = batch.stop
        if options.seed is not None:
            break
        print(f"\r{len(total.hashes):>8} distinct states", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{'seeds':>8} {'states checked':>15} {'distinct':>10} {'failures':>9}")
    print(f"{first:>8} {total.checked:>15} {len(total.hashes):>10} {len(total.failures):>9}")
    for failure in total.failures:
        print(failure)
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
