"""Take every crash point of the cold tier: `python -m tests.crashpoints.search`.

The story of `story.py` is told once without a shot, to learn its I/O calls; then once for every
call and everything that may happen there. Prints a table and exits 1 where a promise was broken; a
failure names its shot and the command that replays it. `--write` puts the table into
`docs/crash-points.md`.
"""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.crashpoints.points import End, Point, Shot, all_shots, parse_shot
from tests.crashpoints.stages import STAGES
from tests.crashpoints.story import tell

PAGE = Path(__file__).resolve().parents[2] / "docs" / "crash-points.md"
BEGIN, FINISH = "<!-- table: make crashpoints -->\n", "<!-- end of table -->\n"
PROBLEMS_SHOWN = 3


class Case(NamedTuple):
    shot: Shot
    point: Point
    problems: list[str]

    def __str__(self) -> str:
        lines = [f"{self.shot} at {self.point.stage}, {self.point.what}"]
        lines += [f"    {problem}" for problem in self.problems[:PROBLEMS_SHOWN]]
        lines.append(f"    replay: python -m tests.crashpoints.search --shot {self.shot}")
        return "\n".join(lines)


@cache
def known_points() -> tuple[Point, ...]:
    """The calls of the story that nothing happens to."""
    story = tell(None)
    assert not story.problems, story.problems
    return tuple(story.gate.points)


def take(shot: Shot) -> Case:
    story = tell(shot)
    point, fired = known_points()[shot.number], story.gate.fired
    if fired != point:
        story.problems.insert(0, f"not the story that was known: {fired} for {point}")
    return Case(shot, point, story.problems)


def spread(shots: Sequence[Shot], count: int) -> list[Shot]:
    """So many of them, the same each time, in proportion of every stage and every kind."""
    points = known_points()

    def kind(shot: Shot) -> tuple[object, ...]:
        point = points[shot.number]
        return point.stage, point.is_store, shot.end.name, shot.when.value, shot.number

    ordered = sorted(shots, key=kind)
    return [ordered[number * len(ordered) // count] for number in range(count)]


def take_all(shots: Sequence[Shot], *, processes: int) -> list[Case]:
    if processes == 1:
        return [take(shot) for shot in shots]
    done: list[Case] = []
    with ProcessPoolExecutor(processes, initializer=_be_quiet) as pool:
        for case in pool.map(take, shots, chunksize=8):
            done.append(case)
            if len(done) % 50 == 0:
                print(
                    f"\r{len(done):>6} of {len(shots)} cases", end="", file=sys.stderr, flush=True
                )
    print(file=sys.stderr)
    return done


# The table


def table(cases: Sequence[Case]) -> list[str]:
    """Markdown: a row for each stage and kind of I/O."""
    ends = list(End)
    rows = [["stage", "I/O", "calls", *(end.value for end in ends), "cases", "failures"]]
    for stage in STAGES:
        for is_store in (False, True):
            of_row = [one for one in cases if one.point[1:3] == (stage, is_store)]
            if of_row:
                rows.append([stage, "store" if is_store else "disk", *_numbers(of_row, ends)])
    rows.append(["all", "", *_numbers(cases, ends)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    ruler = ["-" * (widths[0]), "-" * widths[1], *("-" * (width - 1) + ":" for width in widths[2:])]
    return [lines[0], f"| {' | '.join(ruler)} |", *lines[1:]]


def _numbers(cases: Sequence[Case], ends: Sequence[End]) -> list[str]:
    by_end = Counter(one.shot.end for one in cases)
    calls = len({one.point.number for one in cases})
    failures = sum(bool(one.problems) for one in cases)
    return [str(one) for one in (calls, *(by_end[end] for end in ends), len(cases), failures)]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.ljust(width) if column < 2 else cell.rjust(width)
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
    parser.add_argument("--shot", type=parse_shot, help="replay one, as a failure names it")
    parser.add_argument("--count", type=int, help="a spread of so many cases; by default all")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"the table into {PAGE.name}")
    options = parser.parse_args()
    if options.shot is not None:
        case = take(options.shot)
        print(case)
        return 1 if case.problems else 0
    _be_quiet()
    shots = all_shots(known_points())
    if options.count is not None:
        shots = spread(shots, options.count)
    cases = take_all(shots, processes=options.processes)
    lines = table(cases)
    print("\n".join(lines))
    failed = [one for one in cases if one.problems]
    for one in failed:
        print(one)
    if options.write:
        write_page(lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
