"""A node under load and faults for as long as you like: `make soak`, `python -m tests.soak`.

    python -m tests.soak --minutes 120 --store minio --seed 7 [--json]

A topic with retention of two minutes, others beside it; real producers and consumers; kills,
outages, deletions and changes of retention, drawn from the seed; tables follow all of it. Prints
what is going on, then the verdict; exits with 1 if something is lost, wrong, or grows. `--quick`
has the short tempo and each fault once, as the test has it.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.soak.shelves import shelf_of
from tests.soak.soak import Report, for_minutes, in_rounds
from tests.soak.tempo import LONG, SHORT
from tests.soak.world import World
from tests.stores.servers import Missing

FAULT_S = 45.0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--store", choices=("folder", "minio"), default="folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault-seconds", type=float, default=FAULT_S, help="between two, about")
    parser.add_argument("--quick", action="store_true", help="each fault once, all periods short")
    parser.add_argument("--short", action="store_true", help="all periods short, for --minutes")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def soak(options: argparse.Namespace, folder: Path, say: Callable[[str], None]) -> Report:
    tempo = SHORT if options.quick or options.short else LONG
    with shelf_of(options.store, folder) as shelf, World(folder, shelf, tempo) as world:
        if options.quick:
            return in_rounds(world, seed=options.seed, say=say)
        return for_minutes(
            world,
            minutes=options.minutes,
            fault_s=options.fault_seconds,
            seed=options.seed,
            say=say,
        )


def show(report: Report) -> None:
    print(f"\nseed {report.seed}, {report.store}: {len(report.faults)} faults")
    print(f"{report.acked:,} records acked, {report.checked:,} read and compared")
    for one in report.flatness:
        thirds = ", ".join(f"{median:,.0f}" for median in one.medians)
        word = "flat" if one.is_flat else "NOT FLAT"
        print(f"{one.name:>14}: {thirds or 'too few samples'}; bound {one.bound:,.0f}: {word}")
    last = report.settled[-1]
    print(f"{report.verified_segments:,} segments verified; {last.objects} objects stay at the end")
    print(f"{report.verified_files:,} files of tables; {report.table_rows:,} rows compared")
    print(f"of tables, all lives: {report.tables}")
    print(f"{last.receipts} receipts; of the last life: {report.counters}")
    for problem in report.problems:
        print(f"PROBLEM: {problem}")
    print("sound" if report.is_sound else "NOT SOUND")


def main() -> int:
    options = parse()
    logging.disable(logging.WARNING)
    say = partial(print, file=sys.stderr if options.json else sys.stdout, flush=True)
    with tempfile.TemporaryDirectory(prefix="tierlog-soak-") as name:
        folder = Path(name)
        try:
            report = soak(options, folder, say)
        except Missing as missing:
            say(str(missing))
            return 1
        except AssertionError as failure:
            say(f"FAILED: {failure}")
            return 1
    if options.json:
        print(json.dumps(report.as_value(), indent=2))
    else:
        show(report)
    return 0 if report.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
