"""`tierlog` as processes, for the tests of its command line."""

import os
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

READY = re.compile(
    r"tierlog ready kafka=(127\.0\.0\.1:\d+) http=(127\.0\.0\.1:\d+|off) node=(\d+) store=(\S+)\n"
)
LIMIT_S = 30


@dataclass(slots=True)
class Served:
    process: "subprocess.Popen[str]"

    def ready(self) -> re.Match[str]:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], LIMIT_S)[0], "no ready line came"
        line = self.process.stdout.readline()
        found = READY.fullmatch(line)
        assert found, (line, self.process.communicate(timeout=LIMIT_S))
        return found

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out, err


Start: TypeAlias = Callable[..., Served]


@contextmanager
def starting(directory: Path, environment: Mapping[str, str] | None = None) -> Iterator[Start]:
    """Start nodes on free ports in a directory, with whatever else is given; end them all."""
    # With PYTHONUNBUFFERED Python writes every line at once, and nobody would notice a missing
    # flush: it is not handed on.
    chosen = {**os.environ, **(environment or {})}
    chosen.pop("PYTHONUNBUFFERED", None)
    processes: list[subprocess.Popen[str]] = []

    def run(*options: str) -> Served:
        command = [sys.executable, "-m", "tierlog", "serve", "--data", "data"]
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env=chosen,
        )
        processes.append(process)
        return Served(process)

    try:
        yield run
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


def run(*words: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Ended:
    """A command that ends by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "tierlog", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        timeout=LIMIT_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
