"""Command line: run the bench modules, print their tables, keep RESULTS.md on `--write`.

Exit code 0 when everything ran, 1 with `--strict` when a hold was missed, 2 for bad arguments.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import harness, modules, report
from benchmarks.harness import Row, Verdict

RESULTS = Path(__file__).with_name("RESULTS.md")


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="run this module alone; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="small data, short measurements")
    parser.add_argument("--write", action="store_true", help="replace the sections in RESULTS.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows as JSON")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="where files under test go")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a hold was missed")
    parser.add_argument("--list", action="store_true", help="name the modules and leave")
    args = parser.parse_args(argv)
    unknown = set(args.only or ()) - set(modules.names())
    if unknown:
        parser.error(f"no bench module called {', '.join(sorted(unknown))}; try --list")
    if args.quick and args.write:
        parser.error("--write keeps figures of the full size; leave --quick out")
    return args


def run_all(args: argparse.Namespace) -> Iterator[Row]:
    for name in args.only or modules.names():
        yield from run_one(name, args)


def run_one(name: str, args: argparse.Namespace) -> list[Row]:
    machine = report.Machine.here()
    with tempfile.TemporaryDirectory(prefix="tierlog-bench-", dir=args.scratch) as scratch:
        size = (harness.quick if args.quick else harness.full)(Path(scratch))
        try:
            comparisons = modules.load(name)(size)
        except harness.Unavailable as missing:
            print(f"\n{name}: left out: {missing}", flush=True)
            return []
        rows = [row for comparison in comparisons for row in harness.run(comparison, size)]
    body = report.section(rows, size, machine)
    print(f"\n{name}\n{body}", flush=True)
    if args.write and rows:
        report.write_section(RESULTS, name, body)
    return rows


def main(argv: Sequence[str]) -> int:
    args = arguments(argv)
    if args.list:
        print("\n".join(modules.names()))
        return 0
    rows = list(run_all(args))
    if args.json:
        size = (harness.quick if args.quick else harness.full)(Path())
        args.json.write_text(report.as_json(rows, size, report.Machine.here()) + "\n")
    missed = [row for row in rows if row.verdict is Verdict.MISSED]
    for row in missed:
        print(
            f"MISSED: {row.comparison} / {row.variant}: {row.ratio.median:.2f}, hold {row.hold:g}"
        )
    return 1 if missed and args.strict else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
