"""Run scenarios under many seeds: `make simulate`.

    python -m tierlog.sim [module:function ...] [--seeds 300] [--first 1] [--processes 2]

Prints one row a scenario and, for each seed that failed, its error and the command that replays it.
Exit code 1 if any failed. A room adds its scenarios by name in the Makefile; nothing is imported
from here upwards.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from tierlog.env import LocalTasks, SystemClock
from tierlog.sim.replay import RunReport, run_slice

DEFAULT = ("tierlog.sim.couriers:couriers",)
SLICE = 10
"""Seeds handed to a process at a time: small enough that both stay busy to the end."""

FAILURES_SHOWN = 10


async def run_seeds(tasks: LocalTasks, name: str, seeds: Sequence[int]) -> list[RunReport]:
    slices = [seeds[start : start + SLICE] for start in range(0, len(seeds), SLICE)]
    parts = await asyncio.gather(*(tasks.in_process(run_slice, name, part) for part in slices))
    return [report for part in parts for report in part]


HEAD = f"{'scenario':<40} {'seeds':>7} {'virtual h':>10} {'callbacks/s':>12} {'failed':>7}\n"


def row(name: str, reports: Sequence[RunReport], seconds: float) -> str:
    hours = sum(report.virtual_seconds for report in reports) / 3600
    callbacks = sum(report.callbacks for report in reports)
    failed = sum(report.failure is not None for report in reports)
    return (
        f"{name:<40} {len(reports):>7} {hours:>10.2f} {callbacks / seconds:>12,.0f} {failed:>7}\n"
    )


def failures(name: str, reports: Sequence[RunReport]) -> str:
    failed = [report for report in reports if report.failure is not None]
    lines = [
        f"  seed {report.seed}: {report.error}\n"
        f"    python -m tierlog.sim.replay {name} --seed {report.seed}\n"
        for report in failed[:FAILURES_SHOWN]
    ]
    if len(failed) > FAILURES_SHOWN:
        lines.append(f"  and {len(failed) - FAILURES_SHOWN} more\n")
    return "".join(lines)


async def run(options: argparse.Namespace) -> int:
    clock = SystemClock()
    tasks = LocalTasks(process_count=options.processes)
    seeds = range(options.first, options.first + options.seeds)
    sys.stdout.write(HEAD)
    failed = 0
    for name in options.scenarios or DEFAULT:
        start = clock.monotonic()
        reports = await run_seeds(tasks, name, seeds)
        sys.stdout.write(row(name, reports, clock.monotonic() - start) + failures(name, reports))
        failed += sum(report.failure is not None for report in reports)
    tasks.close()
    return 1 if failed else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tierlog.sim", description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="module:function")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    return asyncio.run(run(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
