"""Command line: run the bench modules, print their tables, keep RESULTS.md on `--write`.

Exit code 0 when everything ran, 1 with `--strict` when a hold was missed, 2 for bad arguments.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import gauge, harness, modules, report
from benchmarks.gauge import Reading
from benchmarks.harness import Row, Size, Verdict

TERMINATED = 143
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
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        type=option,
        metavar="NAME=NUMBER",
        help="a wish for one module, as its docstring says; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="name the modules and leave")
    args = parser.parse_args(argv)
    unknown = set(args.only or ()) - set(modules.names())
    if unknown:
        parser.error(f"no bench module called {', '.join(sorted(unknown))}; try --list")
    if args.quick and args.write:
        parser.error("--write keeps figures of the full size; leave --quick out")
    return args


def option(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    return name, float(number)


def run_modules(args: argparse.Namespace) -> tuple[list[Row], list[Reading]]:
    rows: list[Row] = []
    readings: list[Reading] = []
    for name in args.only or modules.usual_names():
        some_rows, some_readings = run_one(name, args)
        rows += some_rows
        readings += some_readings
    return rows, readings


def size_of(args: argparse.Namespace, scratch: Path) -> Size:
    size = (harness.quick if args.quick else harness.full)(scratch)
    return replace(size, options=dict(args.option))


def run_one(name: str, args: argparse.Namespace) -> tuple[list[Row], list[Reading]]:
    machine = report.Machine.here()
    with tempfile.TemporaryDirectory(prefix="tierlog-bench-", dir=args.scratch) as scratch:
        size = size_of(args, Path(scratch))
        try:
            rows, readings = gauge.run_all(modules.load(name)(size), size, tell=tell)
        except harness.Unavailable as missing:
            print(f"\n{name}: left out: {missing}", flush=True)
            return [], []
    body = report.section(rows, size, machine, readings)
    print(f"\n{name}\n{body}", flush=True)
    if args.write and (rows or readings):
        report.write_section(RESULTS, name, body)
    return rows, readings


def tell(name: str) -> None:
    """A full run takes minutes; whoever waits sees it move."""
    print(f"measured: {name}", file=sys.stderr, flush=True)


def missed_sentences(rows: Sequence[Row], readings: Sequence[Reading]) -> list[str]:
    sentences = [
        f"{row.comparison} / {row.variant}: {row.ratio.median:.2f}, hold {row.hold:g}"
        for row in rows
        if row.verdict is Verdict.MISSED
    ]
    return sentences + [
        reading.missed_sentence() for reading in readings if reading.verdict is Verdict.MISSED
    ]


def main(argv: Sequence[str]) -> int:
    args = arguments(argv)
    if args.list:
        print("\n".join(modules.names()))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # So that servers are ended.
    rows, readings = run_modules(args)
    if args.json:
        text = report.as_json(rows, size_of(args, Path()), report.Machine.here(), readings)
        args.json.write_text(text + "\n")
    missed = missed_sentences(rows, readings)
    for sentence in missed:
        print(f"MISSED: {sentence}")
    return 1 if missed and args.strict else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
