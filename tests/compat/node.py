"""A node in a process of its own, for clients that know nothing of us.

    with running(folder, sets=["auto.create.topics.enable=false"]) as node:
        node.address            # HOST:PORT
        node.stop(); node.start()   # again, at the same place
        node.partitions("orders")   # where its offsets are, as `/state` tells

It is stopped as an operator would stop it, by SIGTERM, and must then leave with 0 and without a
traceback: a client that made the node stumble fails its test even if the client got its answer.
"""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

START_S = 90.0
STOP_S = 30.0
_READY = re.compile(r"^tierlog ready kafka=([\d.]+:\d+) http=(\S+) node=1 store=\S+$")


class RunningNode:
    def __init__(
        self,
        folder: Path,
        sets: Sequence[str],
        *,
        store: str | None,
        environment: Mapping[str, str],
    ) -> None:
        self.address = f"127.0.0.1:{port_to_keep()}"
        self.data = folder / "data"
        self._http = ""
        self._sets = sets
        self._store = store
        self._environment = {**os.environ, **environment}
        self._log_path = folder / "stderr"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._words(), stdout=subprocess.PIPE, stderr=log, env=self._environment
            )
        self.address, self._http = self._ready(self._process)

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_S)
        self.kill()
        said = self._log_path.read_text()
        assert code == 0, said
        assert "Traceback" not in said, said

    def kill(self) -> None:
        """End it without a word; nothing if it has ended."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def log(self) -> str:
        return self._log_path.read_text()

    @property
    def http(self) -> str:
        return self._http

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self._http}/state", timeout=START_S) as answer:
            state: dict[str, Any] = json.load(answer)
        return state

    def partitions(self, topic: str) -> list[dict[str, int]]:
        found: list[dict[str, int]] = self._described(topic)["partitions"]
        return found

    def topic_id(self, topic: str) -> str:
        """In hexadecimal, as directories carry it."""
        return str(self._described(topic)["id"])

    def _described(self, topic: str) -> dict[str, Any]:
        topics = self.state()["topics"]
        found: dict[str, Any] = next(one for one in topics if one["name"] == topic)
        return found

    def metric(self, name: str) -> float:
        """Of `/metrics`, by its whole name, labels and all."""
        with urllib.request.urlopen(f"http://{self._http}/metrics", timeout=START_S) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        (value,) = (line.split()[-1] for line in lines if line.startswith(f"{name} "))
        return float(value)

    def _words(self) -> list[str]:
        words = [sys.executable, "-m", "tierlog", "serve", "--data", str(self.data)]
        words += ["--listen", self.address, "--http", "127.0.0.1:0"]
        words += ["--store", self._store] if self._store else []
        return words + [word for one in self._sets for word in ("--set", one)]

    def _ready(self, process: subprocess.Popen[bytes]) -> tuple[str, str]:
        assert process.stdout is not None
        timer = threading.Timer(START_S, process.kill)
        timer.start()
        try:
            line = process.stdout.readline().decode()
        finally:
            timer.cancel()
        ready = _READY.match(line)
        assert ready, f"no ready line but {line!r}: {self._log_path.read_text()}"
        return ready[1], ready[2]


def port_to_keep() -> int:
    """One that stays free while a node is down: those that the kernel hands out to whoever
    connects, also to a client that knocks there, begin above."""
    for port in random.sample(range(20_000, 32_000), k=100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


@contextlib.contextmanager
def running(
    folder: Path,
    *,
    sets: Sequence[str] = (),
    store: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[RunningNode]:
    """A node that lives as long as the block."""
    node = RunningNode(folder, sets, store=store, environment=environment or {})
    try:
        node.start()
        yield node
        node.stop()
    finally:
        node.kill()
