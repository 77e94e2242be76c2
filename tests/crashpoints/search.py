"""Take every crash point of the cold tier: `python -m tests.crashpoints.search`.

Each story is told once without a shot, to learn its I/O calls; then once for every call and
everything that may happen there. Prints a table and exits 1 where a promise was broken; a failure
names its shot and the command that replays it. `--write` puts the table into
`docs/crash-points.md`. With `--notes FILE` a run that was cut off goes on where it was.
"""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.crashpoints import stage_delete, stage_expire, stage_merge, stage_table
from tests.crashpoints.notes import Notes
from tests.crashpoints.points import End, Shot, parse_shot
from tests.crashpoints.stages import STAGES
from tests.crashpoints.story import tell
from tests.crashpoints.tale import Case, Tale

ROAD = Tale("road", STAGES, tell)
STAGED = (stage_expire.TALE, stage_delete.TALE, stage_merge.TALE, stage_table.TALE)
TALES = {tale.name: tale for tale in (ROAD, *STAGED)}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "crash-points.md"
BEGIN, FINISH = "<!-- table: make crashpoints -->\n", "<!-- end of table -->\n"


class Job(NamedTuple):
    tale: str
    shot: Shot


def parse_job(text: str) -> Job:
    """As a failure names it: `road:143:after:lives`."""
    name, _, shot = text.partition(":")
    if name not in TALES:
        raise argparse.ArgumentTypeError(f"no story {name!r}; there are {', '.join(TALES)}")
    return Job(name, parse_shot(shot))


def all_jobs(count: int | None) -> list[Job]:
    """All of every story, or a spread of so many, of each in proportion."""
    shots = {name: tale.shots() for name, tale in TALES.items()}
    total = sum(map(len, shots.values()))
    jobs = []
    for name, tale in TALES.items():
        chosen = shots[name]
        if count is not None and count < total:
            chosen = tale.spread(max(1, count * len(chosen) // total))
        jobs += [Job(name, shot) for shot in chosen]
    return jobs


def take(job: Job) -> Case:
    return TALES[job.tale].take(job.shot)


def strewn(jobs: Sequence[Job]) -> list[Job]:
    """In an order that is the same each time and has every part of it everywhere."""
    return sorted(jobs, key=lambda job: sha256(f"{job.tale}:{job.shot}".encode()).digest())


def take_all(
    jobs: Sequence[Job], *, processes: int, note: Callable[[Case], None] = lambda _: None
) -> list[Case]:
    """Failures are told as they come."""
    done: list[Case] = []
    with ProcessPoolExecutor(processes, initializer=_be_quiet) as pool:
        for case in pool.map(take, jobs, chunksize=8):
            note(case)
            done.append(case)
            if case.problems:
                print(case, flush=True)
            if len(done) % 50 == 0:
                print(f"\r{len(done):>6} of {len(jobs)} cases", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return done


# The table


def table(cases: Sequence[Case]) -> list[str]:
    """Markdown: a row for each stage of a story and kind of I/O; the cases that there are, and
    what became of those that were taken."""
    rows = [["story", "stage", "I/O", "calls", "cases", *(end.value for end in End)]]
    rows[0] += ["taken", "failures"]
    for tale in TALES.values():
        for stage in tale.stages:
            for is_store in (False, True):
                if numbers := _numbers(cases, [(tale.name, stage, is_store)]):
                    kind = "store" if is_store else "disk"
                    rows.append([tale.name, stage, kind, *map(str, numbers)])
    every = [(tale.name, *key) for tale in TALES.values() for key in _keys(tale)]
    rows.append(["all", "", "", *map(str, _numbers(cases, every))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    words, numbers = widths[:WORDS], widths[WORDS:]
    ruler = [*("-" * width for width in words), *("-" * (width - 1) + ":" for width in numbers)]
    return [lines[0], f"| {' | '.join(ruler)} |", *lines[1:]]


WORDS = 3
"""Columns of the table that are no numbers."""


def _keys(tale: Tale) -> list[tuple[str, bool]]:
    return [(stage, is_store) for stage in tale.stages for is_store in (False, True)]


def _numbers(cases: Sequence[Case], keys: Sequence[tuple[str, str, bool]]) -> list[int]:
    """Of these rows; nothing if there are no such calls."""
    calls = {
        (name, point.number)
        for name, tale in TALES.items()
        for point in tale.points()
        if (name, point.stage, point.is_store) in keys
    }
    if not calls:
        return []
    count = sum((name, shot.number) in calls for name in TALES for shot in TALES[name].shots())
    taken = [one for one in cases if (one.tale, one.point.number) in calls]
    ends = Counter(one.shot.end for one in taken)
    failures = sum(bool(one.problems) for one in taken)
    return [len(calls), count, *(ends[end] for end in End), len(taken), failures]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if column < WORDS else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(cells)} |"


def write_page(lines: Sequence[str]) -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(FINISH)
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n\n{FINISH}{after}")


def _be_quiet() -> None:
    logging.disable(logging.CRITICAL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shot", type=parse_job, help="replay one, as a failure names it")
    parser.add_argument("--count", type=int, help="a spread of so many cases; by default all")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--notes", type=Path, help="what was taken, to go on there next time")
    parser.add_argument("--write", action="store_true", help=f"the table into {PAGE.name}")
    options = parser.parse_args()
    if options.shot is not None:
        case = take(options.shot)
        print(case)
        return 1 if case.problems else 0
    _be_quiet()
    jobs = all_jobs(options.count)
    if options.notes is None:
        return _report(take_all(jobs, processes=options.processes), options.write)
    notes = Notes(options.notes, TALES.values())
    taken = notes.taken
    take_all(
        strewn([job for job in jobs if job not in taken]),
        processes=options.processes,
        note=notes.add,
    )
    return _report(notes.cases, options.write)


def _report(cases: Sequence[Case], is_written: bool) -> int:
    lines = table(cases)
    print("\n".join(lines))
    is_sound = not any(case.problems for case in cases)
    if is_written and is_sound:
        write_page(lines)
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
