"""Where the time of a node goes under one load.

    python -m benchmarks.profile SHAPE [--seconds S] [--top N] [--perf]

Runs a node under cProfile, drives it with one shape, and prints the functions by own time. cProfile
sees the loop's thread only and makes Python code look slower than it is beside system calls:
read it for the order, not for the shares. With `--perf` the node runs bare and `perf` samples all
its threads, the kernel included; C and kernel symbols are then what is listed.
"""

import argparse
import pstats
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import drive, tools
from benchmarks.broker import PAGE_CACHE, Tierlog
from benchmarks.drive import Produce

FILL_BYTES = 64 << 20
Load = Callable[[Tierlog, float], Mapping[str, float]]


def produce_load(shape: str, *, acks: int = 1, is_synced: bool = False, **changes: int) -> Load:
    how = Produce(
        shape=drive.shape(shape, **changes), acks=acks, configs={} if is_synced else PAGE_CACHE
    )
    return lambda node, seconds: drive.produce(node, how, seconds)


def fetch_load(bytes_max: int, connections: int) -> Load:
    def run(node: Tierlog, seconds: float) -> Mapping[str, float]:
        drive.fill(node, bytes_each=FILL_BYTES)
        return drive.fetch(node, bytes_max=bytes_max, connections=connections, seconds=seconds)

    return run


SHAPES: dict[str, Load] = {
    "small": produce_load("one record, 16 connections"),
    "pipelined": produce_load("one record, pipelined"),
    "64k": produce_load("produce 64 KB"),
    "1m": produce_load("produce 1 MB"),
    "64k-synced": produce_load("produce 64 KB", is_synced=True),
    "64k-all": produce_load("produce 64 KB", acks=-1, is_synced=True, connections=4),
    "fetch-1m": fetch_load(1 << 20, 1),
    "fetch-1m-4": fetch_load(1 << 20, 4),
    "fetch-64k-16": fetch_load(1 << 16, 16),
    "end-to-end": lambda node, seconds: drive.end_to_end(
        node, rate=10_000, seconds=seconds, configs=PAGE_CACHE
    ),
    "end-to-end-synced": lambda node, seconds: drive.end_to_end(
        node, rate=10_000, seconds=seconds, configs={}
    ),
}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--top", type=int, default=30)
    parser.add_argument("--perf", action="store_true", help="sample with perf, not cProfile")
    args = parser.parse_args(argv)
    if args.perf and shutil.which("perf") is None:
        parser.error("there is no perf here")
    tools.build()
    with tempfile.TemporaryDirectory(prefix="tierlog-profile-") as folder:
        (with_perf if args.perf else with_cprofile)(Path(folder), args)
    return 0


def with_cprofile(folder: Path, args: argparse.Namespace) -> None:
    figures = folder / "profile"
    with Tierlog(folder / "data", profile=figures) as node:
        node.start()
        print(dict(SHAPES[args.shape](node, args.seconds)), flush=True)
        node.stop()
    pstats.Stats(str(figures), stream=sys.stdout).sort_stats("tottime").print_stats(args.top)


def with_perf(folder: Path, args: argparse.Namespace) -> None:
    samples = folder / "samples"
    with Tierlog(folder / "data") as node:
        node.start()
        command = ["perf", "record", "-q", "-F", "1999", "-g", "-o", str(samples), "-p"]
        perf = subprocess.Popen([*command, str(node.pid)])
        print(dict(SHAPES[args.shape](node, args.seconds)), flush=True)
        perf.send_signal(signal.SIGINT)  # Before the node stops: its end is not the question.
        perf.wait(timeout=30)
    command = ["perf", "report", "--stdio", "--no-children", "-g", "none", "-i", str(samples)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line for line in shown.splitlines() if line and not line.startswith("#")]
    print("\n".join(lines[: args.top]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
