"""Search for the planted bugs anew: `python -m tests.planted.search`.

For each bug, seeds are tried until its search breaks a promise. A bug that survives `--seeds` seeds
is a hole in the net: the command prints it and exits 1.
"""

import argparse
import logging
import sys

from tests.planted.broker_bugs import BROKER_BUGS
from tests.planted.bugs import BUGS, Bug
from tests.planted.cleaner_bugs import CLEANER_BUGS
from tests.planted.cold_bugs import COLD_BUGS
from tests.planted.group_bugs import GROUP_BUGS
from tests.planted.hold_bugs import HOLD_BUGS
from tests.planted.offset_bugs import OFFSET_BUGS

ALL = (*BUGS, *CLEANER_BUGS, *BROKER_BUGS, *COLD_BUGS, *GROUP_BUGS, *OFFSET_BUGS, *HOLD_BUGS)


def find(bug: Bug, seeds: range) -> tuple[int, str] | None:
    """The first seed that finds the bug, and what it found."""
    with bug.plant():
        for seed in seeds:
            finding = bug.hunt(seed)
            if finding is not None:
                return seed, finding.splitlines()[0]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="seeds to try per bug")
    parser.add_argument("--first", type=int, default=0, help="where to begin")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    missed = 0
    print(f"{'planted bug':<44} {'seeds':>6}  found by")
    for bug in ALL:
        found = find(bug, range(options.first, options.first + options.seeds))
        missed += found is None
        tried = options.seeds if found is None else found[0] - options.first + 1
        print(f"{bug.name:<44} {tried:>6}  {found[1] if found else 'NOT FOUND'}", flush=True)
    print(f"{len(ALL) - missed} of {len(ALL)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
