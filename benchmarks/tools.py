"""Builds and drives the C tools of `native/`.

`ReferenceServer` is a running server; `load` sends requests at ports and returns what the generator
counted. A run counts only if every answer was right: `load` raises otherwise.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.harness import Unavailable

NATIVE = Path(__file__).with_name("native")
BUILD = NATIVE / "build"


class RunFailed(Exception):
    """A tool did not build, did not start, or saw a wrong answer."""


def compiler() -> str | None:
    """The C compiler, or None. Under CI=true its absence is an error, not a reason to skip."""
    found = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if found is None and os.environ.get("CI") == "true":
        raise RunFailed("no C compiler; CI needs one for benchmarks/native")
    return found


def build() -> Path:
    """Make the tools where they are not up to date; returns the folder they are in."""
    if compiler() is None:
        raise Unavailable("there is no C compiler for benchmarks/native")
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests of several processes come here at once
        return _make()


def _make() -> Path:
    done = subprocess.run(["make", "-C", str(NATIVE)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunFailed(f"benchmarks/native does not build:\n{done.stdout}{done.stderr}")
    return BUILD


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a running process, all threads, user and system."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = after_name[11:13]  # fields 14 and 15 of proc(5); the name may hold spaces
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class ReferenceServer:
    """A reference server on a port of its own. Leaving the block stops it and reads its totals."""

    def __init__(self, folder: Path, *, logs: int = 1, segment_mib: int = 512) -> None:
        command = [str(BUILD / "reference_server"), "--dir", str(folder), "--logs", str(logs)]
        command += ["--segment-mib", str(segment_mib)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        words = self._line().split()
        if words[:1] != ["ready"]:
            raise RunFailed(f"the reference server said {words} and ended")
        self.port = int(words[1])
        self.crc = words[2].removeprefix("crc=")
        self.totals: dict[str, int] = {}

    def cpu_s(self) -> float:
        """CPU seconds so far, user and system."""
        return cpu_seconds(self._process.pid)

    def stop(self) -> dict[str, int]:
        """End it, if it still runs; the totals stay in `totals`."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self.totals = json.loads(self._line())
            self._process.wait(timeout=10)
        if self._process.stdout:
            self._process.stdout.close()
        return self.totals

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def load(
    requests: Sequence[bytes],
    *,
    ports: Sequence[int],
    seconds: float = 60.0,
    requests_max: int | None = None,
    connections: int = 1,
    depth: int | None = None,
    options: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """Drive a server with requests, one kind per connection in turn; every answer must be right.

    Ends after `seconds`, or after `requests_max` requests on each connection if that is sooner.
    """
    with tempfile.TemporaryDirectory(prefix="tierlog-load-") as folder:
        command = [str(BUILD / "load"), "--seconds", str(seconds)]
        command += ["--connections", str(connections)]
        command += [] if depth is None else ["--depth", str(depth)]
        command += [] if requests_max is None else ["--requests", str(requests_max)]
        for number, request in enumerate(requests):
            path = Path(folder) / f"{number}.request"
            path.write_bytes(request)
            command += ["--request", str(path)]
        for port in ports:
            command += ["--port", str(port)]
        for name, option in (options or {}).items():
            command += [f"--{name}"] if option is None else [f"--{name}", option]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunFailed(f"load exit {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
