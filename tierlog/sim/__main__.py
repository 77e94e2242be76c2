"""Run scenarios under many seeds: `make simulate`.

    python -m tierlog.sim [module:function ...] [--seeds 300] [--first 1] [--processes 2]

Prints one row a scenario and, for each seed that failed, its error and the command that replays it;
on the way, now and then, how far it is. Exit code 1 if any failed. A room adds its scenarios by
name in the Makefile; nothing is imported from here upwards.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence

from tierlog.env import Clock, LocalTasks, SystemClock
from tierlog.sim.replay import RunReport, run_slice

DEFAULT = ("tierlog.sim.couriers:couriers",)
SLICE = 10
"""Seeds handed to a process at a time: small enough that both stay busy to the end."""

FAILURES_SHOWN = 10


PROGRESS_SEEDS = 500
"""How often a long run says how far it is."""


async def run_seeds(
    tasks: LocalTasks, name: str, seeds: Sequence[int], tell: Callable[[list[RunReport]], None]
) -> list[RunReport]:
    """`tell` hears of all reports so far, whenever there are new ones."""
    slices = [seeds[start : start + SLICE] for start in range(0, len(seeds), SLICE)]
    reports: list[RunReport] = []
    for part in asyncio.as_completed([tasks.in_process(run_slice, name, part) for part in slices]):
        reports += await part
        tell(reports)
    return sorted(reports, key=lambda report: report.seed)


class Progress:
    """Writes how far a run is. To standard error: the result is what stands in the output."""

    def __init__(self, clock: Clock, seeds: int) -> None:
        self._clock = clock
        self._seeds = seeds
        self._start = clock.monotonic()
        self._told = 0

    def tell(self, reports: list[RunReport]) -> None:
        if len(reports) // PROGRESS_SEEDS > self._told and len(reports) < self._seeds:
            self._told = len(reports) // PROGRESS_SEEDS
            failed = [str(report.seed) for report in reports if report.failure is not None]
            rate = len(reports) / (self._clock.monotonic() - self._start)
            sys.stderr.write(
                f"  {len(reports)} of {self._seeds}, {rate:.1f} seeds/s, "
                f"failed: {' '.join(sorted(failed)) or 'none'}\n"
            )
            sys.stderr.flush()


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
        reports = await run_seeds(tasks, name, seeds, Progress(clock, len(seeds)).tell)
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
